"""A way to PostgreSQL on which the kernel loses every packet: a relay that listens in a network namespace of its own.

Needs root, as `ip netns` does. The way is a pair of virtual Ethernet devices; a queue of length 0 drops what goes in.
Sources: ip-netns(8), tc-pfifo(8), setns(2).
"""

from __future__ import annotations

import ctypes
import os
import socket
import subprocess
import threading
from contextlib import suppress
from pathlib import Path

from tests.relays import Relay

HERE, THERE = "10.231.7.1", "10.231.7.2"
"""The addresses of both ends, in a network of four addresses that nothing else on this machine should have."""

CLONE_NEWNET = 0x40000000


def has_namespaces() -> bool:
    """Whether this process may make network namespaces."""
    return os.geteuid() == 0


class LossyPath:
    """A relay to `port` of this machine behind devices that lose every packet on demand."""

    def __init__(self, port: int) -> None:
        self._name = f"faults{os.getpid()}"
        self._device = f"f{os.getpid()}a"
        _run("ip", "netns", "add", self._name)
        try:
            _run("ip", "link", "add", self._device, "type", "veth", "peer", "name", "there", "netns", self._name)
            _run("ip", "addr", "add", f"{HERE}/30", "dev", self._device)
            _run("ip", "link", "set", self._device, "up")
            _run("ip", "-n", self._name, "addr", "add", f"{THERE}/30", "dev", "there")
            _run("ip", "-n", self._name, "link", "set", "there", "up")
            self.relay = Relay(port, _listener_in(self._name))
        except BaseException:
            self._delete()
            raise

    def lose(self, is_losing: bool) -> None:
        """Lose every packet to the relay, or none."""
        queue = ("root", "pfifo", "limit", "0") if is_losing else ("root",)
        _run("tc", "qdisc", "add" if is_losing else "del", "dev", self._device, *queue)

    def close(self) -> None:
        """End the relay, and delete the devices and the namespace."""
        self.relay.close()
        self._delete()

    def _delete(self) -> None:
        with suppress(subprocess.CalledProcessError):
            _run("ip", "netns", "del", self._name)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)


def _listener_in(name: str) -> socket.socket:
    """Return a socket that listens in a namespace: a thread enters it, and ends."""
    found: list[socket.socket] = []

    def listen() -> None:
        with Path("/run/netns", name).open() as namespace:
            if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), CLONE_NEWNET):
                return
        found.append(socket.create_server((THERE, 0)))

    thread = threading.Thread(target=listen)
    thread.start()
    thread.join()
    if not found:
        raise RuntimeError(f"the network namespace {name} cannot be entered")
    return found[0]
