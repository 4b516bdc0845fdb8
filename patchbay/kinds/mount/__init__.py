"""What stands behind a mounted server: how it is reached, its connections, its last good lists, its health.

    mounts.py     the configuration as a value
    list_bounds.py  how much an upstream may list
    snapshots.py  what an upstream said of itself, kept in the store
    health.py     whether it answers, for pages
    lanes.py      which connection a call goes over
    keeper.py     one mount kept: connected, listed, listened to, tried again
    keepers.py    all mounts of one hub

Floor 4: it speaks through `patchbay.client` and remembers through the store; it knows no server of the catalogue.
"""
