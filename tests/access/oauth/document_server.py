"""An https server with a certificate of its own that serves metadata documents of clients, good and hostile ones."""

from __future__ import annotations

import datetime
import gzip
import ipaddress
import json
import socket
import ssl
import threading
from contextlib import suppress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

HOST = "localhost"


def make_certificate(folder: Path) -> tuple[Path, Path]:
    """Make a certificate for `localhost` that signs itself; return the files of the certificate and of its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, HOST)])
    now = datetime.datetime.now(datetime.UTC)
    names = x509.SubjectAlternativeName([x509.DNSName(HOST), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=2))
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    files = folder / "certificate.pem", folder / "key.pem"
    files[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    private = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    files[1].write_bytes(key.private_bytes(serialization.Encoding.PEM, *private))
    return files


class DocumentServer:
    """Serves one document for each path, over TLS. `requests` are the paths that were asked for.

    `published` has the bytes of paths with a document of their own.

    A hostile path says in its name what the server does instead.
    """

    def __init__(self, folder: Path) -> None:
        self.certificate, key = make_certificate(folder)
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(self.certificate, key)
        self._listening = socket.create_server((HOST, 0))
        self.port = int(self._listening.getsockname()[1])
        self.requests: list[str] = []
        self.published: dict[str, bytes] = {}
        self.ended = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def url(self, path: str) -> str:
        return f"https://{HOST}:{self.port}{path}"

    def close(self) -> None:
        self.ended.set()
        self._listening.close()

    def document(self, path: str, **changes: object) -> bytes:
        known = {
            "client_id": self.url(path),
            "client_name": "A client with a document",
            "redirect_uris": ["http://127.0.0.1/callback", "http://localhost/callback"],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
        } | changes
        return json.dumps({name: value for name, value in known.items() if value is not None}).encode()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with suppress(OSError), self._context.wrap_socket(client, server_side=True) as stream:
            head = b""
            while b"\r\n\r\n" not in head:
                if not (piece := stream.recv(65536)):
                    return
                head += piece
            path = head.split(b" ")[1].decode()
            self.requests.append(path)
            self._answer(stream, path)

    def _answer(self, stream: ssl.SSLSocket, path: str) -> None:
        kind = path.strip("/").partition("-")[0]
        body = self.published.get(path) or self.document(path, **CHANGES.get(kind, {}))
        head, extra = "200 OK", ""
        if kind == "redirect":
            head, extra = "302 Found", f"Location: {self.url('/good')}\r\n"
        elif kind == "missing":
            head = "404 Not Found"
        elif kind == "huge":
            body = self.document(path, padding="x" * 10 * 1024 * 1024)
        elif kind == "compressed":
            body, extra = gzip.compress(body), "Content-Encoding: gzip\r\n"
        elif kind in BODIES:
            body = BODIES[kind]
        stream.sendall(f"HTTP/1.1 {head}\r\nContent-Type: application/json\r\n{extra}".encode())
        if kind == "slowhead":
            self._drip(stream, b"X-Header: x\r\n")
        length = 1000 if kind == "slowbody" else len(body)
        stream.sendall(f"Content-Length: {length}\r\nConnection: close\r\n\r\n".encode())
        if kind == "slowbody":
            self._drip(stream, b" ")
        stream.sendall(body)

    def _drip(self, stream: ssl.SSLSocket, piece: bytes) -> None:
        """Send a little again and again, and never come to an end."""
        while not self.ended.wait(0.05):
            stream.sendall(piece)


CHANGES: dict[str, dict[str, object]] = {
    "otherid": {"client_id": "https://other.example/client.json"},
    "noid": {"client_id": None},
    "secret": {"client_secret": "x"},
    "method": {"token_endpoint_auth_method": "client_secret_post"},
    "noredirect": {"redirect_uris": []},
    "plainredirect": {"redirect_uris": ["http://client.example/"]},
    "script": {"redirect_uris": ["javascript:alert(1)"]},
    "numbername": {"client_name": 7},
}
"""Documents with one wrong value, by the first word of their path."""

BODIES: dict[str, bytes] = {
    "empty": b"",
    "text": b"hello",
    "array": b"[]",
    "deep": b"[" * 10_000 + b"]" * 10_000,
    "notutf": b'{"client_id": "\xff"}',
    "twice": b'{"client_id": 1, "client_id": 2}',
}
"""Bodies that are not a document, by the first word of their path."""
