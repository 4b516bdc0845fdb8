"""A receiver of webhooks over https on this machine: it verifies signatures as Standard Webhooks says, and may fail."""

from __future__ import annotations

import base64
import hmac
import json
import random
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

HOST = "localhost"
DRIPPED_BYTES = 4000
SECRET = "whsec_" + base64.b64encode(b"s" * 32).decode()


class Receiver:
    """What came: `events` are the bodies that were accepted, in order. `failures` is the share of refused deliveries.

    `echoes` says whether a challenge is answered. With a `status` other than 200, a delivery is answered with it, with
    `answer`, and with `location` as its redirect. `paths` are those of all requests. `connections` counts those that
    were opened, `closed` those that ended. `closes` ends each connection after an answer that does not say so. With
    `drops_used` (`drops_new`), the next request on a used (new) connection is read and gets no answer. `cookie` is set
    by each answer, and `cookies` are those of all requests. With `drips`, an answer comes byte by byte; with `breaks`,
    it ends before its last byte. With `drips_head` (`drips_chunk`), its head (the head of its first chunk) comes byte
    by byte. `cut` counts the answers that the client did not read to their ends.
    """

    def __init__(self, port: int) -> None:
        self.url = f"https://{HOST}:{port}/hook"
        self.secrets = [SECRET]
        self.events: list[dict[str, Any]] = []
        self.controls: list[dict[str, Any]] = []
        self.requests = self.challenges = 0
        self.failures = 0.0
        self.status = 200
        self.answer = b""
        self.location = ""
        self.paths: list[str] = []
        self.echoes = True
        self.connections = 0
        self.closed = 0
        self.closes = False
        self.drops_used = self.drops_new = False
        self.dropped = 0
        self.cookie = ""
        self.cookies: list[str | None] = []
        self.drips = self.breaks = self.drips_head = self.drips_chunk = False
        self.cut = 0
        self.wrong_signatures = 0
        self.changed = threading.Condition()
        self._random = random.Random(37)

    def receive(self, headers: Any, body: bytes) -> tuple[int, bytes]:
        """Return the status and the body of the answer to one request."""
        with self.changed:
            self.requests += 1
            if not self._is_signed(headers, body):
                self.wrong_signatures += 1
                return 401, b""
            value = json.loads(body)
            if value.get("type") == "verification":
                self.challenges += 1
                return 200, json.dumps({"challenge": value["challenge"] if self.echoes else "no"}).encode()
            if self.status != 200:
                return self.status, self.answer
            if self._random.random() < self.failures / 2:
                return 503, b""
            (self.controls if "type" in value else self.events).append(value)
            self.changed.notify_all()
            # It fails after it took the event too: then the same event comes again.
            return (500, b"") if self._random.random() < self.failures / 2 else (200, b"")

    def _is_signed(self, headers: Any, body: bytes) -> bool:
        id, timestamp = headers["webhook-id"], headers["webhook-timestamp"]
        sent = headers["webhook-signature"].split()
        made = [
            hmac.digest(base64.b64decode(one.removeprefix("whsec_")), f"{id}.{timestamp}.".encode() + body, sha256)
            for one in self.secrets
        ]
        return any(f"v1,{base64.b64encode(one).decode()}" in sent for one in made)


def make_certificate(folder: Path) -> tuple[Path, ssl.SSLContext]:
    """Return the certificate of localhost, which is its own authority, and the context of a server with it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, HOST)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(True, 0), True)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(HOST)]), False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
        .add_extension(x509.KeyUsage(True, False, False, False, False, True, True, False, False), True)
        .sign(key, hashes.SHA256())
    )
    authority, whole = folder / "authority.pem", folder / "receiver.pem"
    authority.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    whole.write_bytes(authority.read_bytes() + private)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(whole)
    return authority, context


class _Handler(BaseHTTPRequestHandler):
    """A connection to the receiver `one`."""

    one: Receiver
    protocol_version = "HTTP/1.1"

    is_used = False

    def setup(self) -> None:
        super().setup()
        with self.one.changed:
            self.one.connections += 1

    def finish(self) -> None:
        super().finish()
        with self.one.changed:
            self.one.closed += 1

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.one.paths.append(self.path)
        self.one.cookies.append(self.headers["Cookie"])
        is_used, self.is_used = self.is_used, True
        if self.one.drops_used if is_used else self.one.drops_new:
            self.one.drops_used = self.one.drops_new = False
            self.close_connection = True
            self.one.dropped += 1
            return
        status, answer = self.one.receive(self.headers, body)
        if self.one.drips_head or self.one.drips_chunk:
            first = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n" + b"\r\n" * self.one.drips_chunk
            self.wfile.write(first)
            self.drip((b"5;x=" if self.one.drips_chunk else b"X-Header: ") + b"." * DRIPPED_BYTES)
            return
        self.send_response(status)
        if self.one.location and 300 <= status < 400:
            self.send_header("Location", self.one.location)
        if self.one.cookie:
            self.send_header("Set-Cookie", self.one.cookie)
        answer = b"." * DRIPPED_BYTES if self.one.drips else answer
        self.send_header("Content-Length", str(len(answer) + self.one.breaks))
        self.end_headers()
        if self.one.drips:
            self.drip(answer)
        else:
            self.wfile.write(answer)
        self.close_connection = self.close_connection or self.one.closes or self.one.breaks

    def drip(self, answer: bytes) -> None:
        """Send a byte each hundredth of a second, until the client has left."""
        left = threading.Event()
        try:
            for byte in answer:
                self.wfile.write(bytes((byte,)))
                left.wait(0.01)
        except OSError:
            self.close_connection = True
            with self.one.changed:
                self.one.cut += 1

    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: Any) -> None:
        """Write no log line."""


@contextmanager
def receiving(folder: Path) -> Iterator[tuple[Receiver, Path]]:
    """A receiver while it runs, and the certificate that a hub has to trust."""
    authority, context = make_certificate(folder)

    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {}))
    server.socket = context.wrap_socket(server.socket, server_side=True)
    one = Receiver(server.server_address[1])
    server.RequestHandlerClass.one = one  # type: ignore[attr-defined]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield one, authority
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def receiver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    """A receiver whose certificate the hubs of this process trust."""
    with receiving(tmp_path) as (one, authority):
        monkeypatch.setenv("SSL_CERT_FILE", str(authority))
        yield one
