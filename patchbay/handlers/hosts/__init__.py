"""Host processes (`isolation: process`): where Python definitions run that nobody has to trust not to fail.

    pool.py       which host runs a call; how many there are; when they end       in the hub
    handler.py    one call over a host's pipe, as events                          in the hub
    service.py    what a running tool asks of the hub                             in the hub
    zygote.py     keeps one zygote process and talks to it                        in the hub
    frames.py     what goes over the pipe                                         both sides
    limits.py     what a host may use                                             both sides
    nursery.py    the zygote process: forks hosts, kills and buries them          child
    host.py       one host: one definition, one call at a time                    grandchild
    sandbox.py    bubblewrap around a zygote, where it is installed               in the hub

What holds: whatever a definition does, by mistake, to itself, its process and its children (hang,
crash, fork, double-fork, eat memory, flood) costs one host; the caller is told why, and nothing of
it is left. Hosts die with the worker, even by `kill -9`.
A host runs as the user that runs the hub. What keeps code that means harm away from the hub is in `confinement/`; where
the machine lacks it, such code can read that user's files and signal that user's processes.
Sources: DESIGN section 6; THREATS 1.6, X2, X3.
"""
