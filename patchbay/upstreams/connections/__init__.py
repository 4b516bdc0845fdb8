"""The connections of the hub to mounted servers, and the calls over them.

opening.py               how a connection is opened
placement.py             which connection a call uses
call_connections.py      the connections of sessions, and those of single calls
call_roots.py            the roots of a caller, brought to the server before a call
sessions.py              the sessions of the hub that have ended
caller_accounts.py       whose token a connection sends, where each caller has its own account
event_queue.py           the events of one mount, and how often its lists are read
upstream_events.py       the events of a mounted server, as a source of events
standing_connection.py   one mount: connected, listed, subscribed, reconnected
standing_connections.py  all mounts of one hub
handler.py               one call of a mounted server, as events
description.py           which program runs, with which rights, and who shares its state
"""
