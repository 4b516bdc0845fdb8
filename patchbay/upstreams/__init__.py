"""Servers to which the hub holds a standing connection: how one is reached, its last valid lists, its health.

    configuration.py         how a mounted server is reached, as a value
    standing.py              what the standing connections of servers and of HTTP APIs share
    liveness.py              whether a server is alive
    remembered_roots.py      the roots that callers gave
    promised_bytes.py        checks of results: bytes under a CID
    requested_hosts.py       the hosts that the program of a server asked for
    room_caller.py           what rooms do for the servers of their members
    lists/                   the last lists of a server
    pushing/                 events that a server pushes
    connections/             the connections, and the calls over them

It connects through `patchbay.client` and stores through the store; it knows no server of the catalogue.
"""
