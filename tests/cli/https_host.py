"""The host `api.genomoncology.com` of seed document 000, on this machine and reached by its own name and port.

A user's ordinary means lead there: `HTTPS_PROXY` names a proxy, which is asked to CONNECT to the host and does so to a
server here; `SSL_CERT_FILE` names the authority that signed that server's certificate. The API answers as the document
says (a description, pages of results under `results`), and at /mcp the host is a hub, an MCP server over HTTPS.
"""

from __future__ import annotations

import select
import socket
import socketserver
import ssl
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from flask import Flask, Response, jsonify, request
from werkzeug.serving import WSGIRequestHandler, make_server

from tests.hubs import Hub

HOST = "api.genomoncology.com"
TOKEN = "Token of the tests"

ALTERATIONS = [
    {"gene": gene, "mutation_type": kind, "name": f"{gene} {number}"}
    for gene in ("BRAF", "EGFR")
    for number in range(8)
    for kind in ("Missense", "Nonsense")
]
TRIALS = [{"gene": "BRAF", "phase": phase, "id": f"NCT{phase[-1]}"} for phase in ("PHASE2", "PHASE3")]


@dataclass(frozen=True)
class HttpsHost:
    """The host while it runs: what the environment of commands has to say, and what the proxy was asked for."""

    environment: Mapping[str, str]
    connects: list[str]


class _Silent(WSGIRequestHandler):
    def log(self, type: str, message: str, *args: Any) -> None:
        """Write no log line."""


class _Proxy(socketserver.ThreadingTCPServer):
    """A proxy that knows CONNECT and one host."""

    daemon_threads = True

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", 0), _Tunnel)
        self.port = port
        self.connects: list[str] = []


class _Tunnel(socketserver.StreamRequestHandler):
    server: _Proxy

    def handle(self) -> None:
        line = self.rfile.readline().decode("latin-1").split()
        while self.rfile.readline().strip():
            """The rest of the head says nothing that matters here."""
        self.server.connects.append(line[1])
        if line[:2] != ["CONNECT", f"{HOST}:443"]:
            self.wfile.write(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")
            return
        with socket.create_connection(("127.0.0.1", self.server.port)) as far:
            self.wfile.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            _relay(self.connection, far)


def _relay(near: socket.socket, far: socket.socket) -> None:
    """What either says to the other, until one of them ends."""
    other = {near: far, far: near}
    while True:
        for one in select.select([near, far], [], [])[0]:
            try:
                data = one.recv(65536)
                other[one].sendall(data)
            except OSError:
                return
            if not data:
                return


def _certificate(
    name: str, issuer: str, key: ec.EllipticCurvePrivateKey, signer: ec.EllipticCurvePrivateKey, authority: bool
) -> bytes:
    now, days = datetime.now(UTC), timedelta(days=1)
    names = [x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, one)]) for one in (name, issuer)]
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
    builder = (
        x509.CertificateBuilder(
            names[1], names[0], key.public_key(), x509.random_serial_number(), now - days, now + days
        )
        .add_extension(x509.BasicConstraints(authority, None), True)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
        .add_extension(identifier, False)
    )
    if authority:
        usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
        builder = builder.add_extension(usage, True)
    return builder.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def certify(folder: Path, host: str = HOST) -> tuple[Path, ssl.SSLContext]:
    """The certificate of an authority, and a server's context with one of the host that it signed."""
    root, own = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    authority, server = folder / "authority.pem", folder / "server.pem"
    authority.write_bytes(_certificate("the tests' authority", "the tests' authority", root, root, True))
    plain = serialization.NoEncryption()
    secret = own.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    server.write_bytes(secret + _certificate(host, "the tests' authority", own, root, False))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(server)
    return authority, context


def _filtered(rows: Iterable[Mapping[str, Any]]) -> Response:
    given = request.args.to_dict()
    limit = int(given.pop("limit", "100"))
    found = [row for row in rows if all(row[key] == value for key, value in given.items())]
    signed = request.headers.get("Authorization") == TOKEN
    shown = [{**row, "signed": signed} for row in found[:limit]]
    return jsonify(results=shown, pagination={"next_cursor": None}, total=len(found))


def _parameters(**kinds: str) -> list[dict[str, Any]]:
    return [{"name": name, "in": "query", "schema": {"type": kind}} for name, kind in kinds.items()]


DESCRIPTION = {
    "openapi": "3.1.0",
    "info": {"title": "genomoncology", "version": "1"},
    "servers": [{"url": f"https://{HOST}"}],
    "paths": {
        "/alterations": {
            "get": {
                "operationId": "alterations",
                "parameters": _parameters(gene="string", mutation_type="string", limit="integer"),
            }
        },
        "/trials": {"get": {"operationId": "trials", "parameters": _parameters(gene="string", phase="string")}},
    },
}


def _api() -> Flask:
    app = Flask("genomoncology")
    app.add_url_rule("/openapi.json", "document", lambda: jsonify(DESCRIPTION))
    app.add_url_rule("/alterations", "alterations", lambda: _filtered(ALTERATIONS))
    app.add_url_rule("/trials", "trials", lambda: _filtered(TRIALS))
    table = "gene,n\nBRAF,1\nEGFR,2\n"
    app.add_url_rule("/genes.csv", "genes", lambda: Response(table, content_type="application/octet-stream"))
    app.add_url_rule("/busy", "busy", lambda: Response("later", 503, content_type="text/plain"))
    return app


@contextmanager
def run_https_host(folder: Path) -> Iterator[HttpsHost]:
    """Have the host run."""
    authority, context = certify(folder)
    api, hub = _api(), Hub(folder / "hub", allowed_hosts=(HOST,), access="open")

    def both(environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        return (hub.app if environ["PATH_INFO"].startswith("/mcp") else api)(environ, start)

    with ExitStack() as stack:
        stack.callback(hub.close)
        site = make_server("127.0.0.1", 0, both, threaded=True, request_handler=_Silent, ssl_context=context)
        stack.callback(site.server_close)
        proxy = stack.enter_context(_Proxy(site.server_port))
        for server in (site, proxy):
            threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
            stack.callback(server.shutdown)
        url = f"http://127.0.0.1:{proxy.server_address[1]}"
        names = {"HTTPS_PROXY": url, "https_proxy": url, "NO_PROXY": "", "no_proxy": ""}
        yield HttpsHost(
            {**names, "SSL_CERT_FILE": str(authority), "API_KEY": TOKEN.removeprefix("Token ")}, proxy.connects
        )
