"""A program: runs another one in a network namespace that nothing outside can reach.

    unshare -n python closed_network.py PORT SOCKET -- COMMAND...

Its loopback is its own; what connects to PORT there is passed on to SOCKET, a Unix socket that another process has.
Prints `pid N` of the command first, and ends as the command does.
"""

from __future__ import annotations

import fcntl
import signal
import socket
import struct
import subprocess
import sys
import threading
from contextlib import suppress

SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1


def bring_loopback_up() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sh14x", b"lo", 0)
        flags = struct.unpack("16sh14x", fcntl.ioctl(any_socket, SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags | IFF_UP))


def pump(source: socket.socket, target: socket.socket) -> None:
    """Pass bytes on until one end closes; then shut both down."""
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    for each in (source, target):
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)


def join(one: socket.socket, other: socket.socket) -> None:
    """Pass bytes on in both directions, on threads of their own, and close both ends when one of them has closed."""
    backwards = threading.Thread(target=pump, args=(other, one), daemon=True)
    backwards.start()

    def run() -> None:
        with one, other:
            pump(one, other)
            backwards.join()

    threading.Thread(target=run, daemon=True).start()


def relay(port: int, path: str) -> None:
    listener = socket.create_server(("127.0.0.1", port))
    while True:
        inside, _ = listener.accept()
        outside = socket.socket(socket.AF_UNIX)
        outside.connect(path)
        join(inside, outside)


def main() -> int:
    port, path, _, *command = sys.argv[1:]
    bring_loopback_up()
    threading.Thread(target=relay, args=(int(port), path), daemon=True).start()
    with subprocess.Popen(command) as process:
        sys.stdout.write(f"pid {process.pid}\n")
        sys.stdout.flush()
        signal.signal(signal.SIGTERM, lambda *_: process.terminate())
        return process.wait()


if __name__ == "__main__":
    sys.exit(main())
