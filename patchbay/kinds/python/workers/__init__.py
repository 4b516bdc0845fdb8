"""Worker processes (`isolation: process`), where Python definitions run that may fail.

    worker_pool.py         which worker runs a call; how many there are; when they end      in the hub
    worker_order.py        what a worker loads, within which limits                         in the hub
    handler.py             one call over a worker's pipe, as events                         in the hub
    hub_service.py         requests of a running tool to the hub                            in the hub
    fork_server_client.py  starts a fork server process and talks to it                     in the hub
    worker_connection.py   the hub's end of one worker's pipe                               in the hub
    frames.py              the frames on the pipe                                           both sides
    fork_server.py         the fork server process: forks, kills and reaps workers          child
    worker.py              one worker: one definition, one call at a time                   grandchild
    hub_proxy.py           the hub as a tool in a worker sees it                            grandchild
    output.py              printed output of a tool as log lines                            both sides
    leftovers.py           files, children and descriptors that a call left behind          grandchild

A definition that hangs, crashes, forks, double-forks, uses too much memory or floods, costs one worker; the caller gets
the reason, and no process of it remains. Workers die with the hub's process, even after `kill -9`. A worker runs as the
user of the hub. `processes/confinement/` protects the hub from malicious code; where the machine lacks a protection,
such code can read that user's files and signal that user's processes.
"""
