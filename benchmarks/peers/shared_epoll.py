"""The least that a web server in Python can do for the same answer: threads that share one epoll.

    python -m benchmarks.peers.shared_epoll PORT [THREADS]     default 8 threads

The thread that gets a readable connection receives and parses the request, answers it, and waits again. There are no
limits, no checks and no routes: this is the floor under a call of the hub, no server to be used.
"""

from __future__ import annotations

import select
import socket
import sys
import threading

import orjson
from httptools import HttpRequestParser

WAITED = select.EPOLLIN | select.EPOLLONESHOT
"""One thread at a time has a connection: it waits for the next event when its answer is sent."""

RECEIVED_BYTES = 65536


class Connection:
    """One connection, whose requests have Content-Length and come one at a time."""

    def __init__(self, accepted: socket.socket) -> None:
        self._socket = accepted
        self._parser = HttpRequestParser(self)
        self._pieces: list[bytes] = []

    def on_body(self, piece: bytes) -> None:
        self._pieces.append(piece)

    def on_message_complete(self) -> None:
        if not self._pieces:  # the question whether the server has started
            self._socket.send(b"HTTP/1.1 405 Method Not Allowed\r\ncontent-length: 0\r\n\r\n")
            return
        asked = orjson.loads(b"".join(self._pieces))
        self._pieces.clear()
        content = [{"type": "text", "text": asked["params"]["arguments"]["message"]}]
        body = orjson.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": {"content": content}})
        self._socket.send(
            b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)
        )

    def receive(self) -> bool:
        """Receive and answer; return whether the connection is still open."""
        try:
            data = self._socket.recv(RECEIVED_BYTES)
        except BlockingIOError:
            return True
        except ConnectionError:  # the load ends with a reset, which must not end a thread of the server
            data = b""
        if data:
            self._parser.feed_data(data)
        else:
            self._socket.close()
        return bool(data)


def serve(port: int, threads: int) -> None:
    """Serve until the process ends."""
    listener, epoll = socket.create_server(("127.0.0.1", port), backlog=1024), select.epoll()
    listener.setblocking(False)
    epoll.register(listener, select.EPOLLIN)
    connections: dict[int, Connection] = {}

    def accept() -> None:
        try:
            accepted, _ = listener.accept()
        except BlockingIOError:  # another thread was first
            return
        accepted.setblocking(False)
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connections[accepted.fileno()] = Connection(accepted)
        epoll.register(accepted, WAITED)

    def work() -> None:
        while True:
            for descriptor, _ in epoll.poll(-1, 1):
                if descriptor == listener.fileno():
                    accept()
                elif connections[descriptor].receive():
                    epoll.modify(descriptor, WAITED)

    for _ in range(threads - 1):
        threading.Thread(target=work, daemon=True).start()
    work()


if __name__ == "__main__":
    serve(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 8)
