"""Confine the code of tools, so that it cannot reach the hub: one module for each feature of the kernel.

    kernel.py        the system calls that Python has no function for
    paths.py         which files a tool may read and change
    landlock.py      Landlock: files on every kernel that has it, ports and signals on newer ones
    namespaces.py    user, process, mount and IPC namespaces for the processes of Python definitions
    privacy.py       a process whose memory and environment other processes of the user cannot read
    threads.py       the thread that starts a command, confined with it
    protections.py   which of these are active on this machine, in words

Each feature works without the others. Where the kernel is not Linux, or lacks a feature, tools run without it and the
page of each server says so.

Sources: landlock(7), namespaces(7), prctl(2).
"""
