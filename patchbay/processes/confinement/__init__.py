"""What keeps the code of tools away from the hub: one module for each feature of the kernel.

    kernel.py        the system calls that Python has no function for
    places.py        which files a tool may read and change
    landlock.py      Landlock: files on every kernel that has it, ports and signals on newer ones
    namespaces.py    user, process, mount and IPC namespaces for the processes of Python definitions
    privacy.py       a process whose memory and environment other processes of the user cannot read
    threads.py       the thread that begins a command, confined with it
    protections.py   which of these hold on this machine, in words
    description.py   how the code of one server runs, in words

Each feature works without the others. Where the kernel is not Linux, or lacks a feature, tools run without it and
the page of each server says so.
Sources: DESIGN section 6; THREATS 1.6; landlock(7), namespaces(7), prctl(2).
"""
