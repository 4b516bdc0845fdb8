"""Mounted servers: how one is reached, its connections, its last valid lists, its health.

    configuration.py         the configuration as a value
    list_bounds.py           limits of the lists of an upstream
    snapshots.py             the last lists of an upstream, in the store
    opening.py               how a connection is opened
    placement.py             which connection a call uses
    call_connections.py      the connections of sessions, and those of single calls
    call_roots.py            the roots of a caller, brought to the server before a call
    sessions.py              the sessions of the hub that have ended
    caller_accounts.py       whose token a connection sends, where each caller has its own account
    event_queue.py           the events of one mount, and how often its lists are read
    standing_connection.py   one mount: connected, listed, subscribed, reconnected
    standing_connections.py  all mounts of one hub

It connects through `patchbay.client` and stores through the store; it knows no server of the catalogue.
"""
