"""A chain with many rows for tests, and a short verifier that shares no code with the hub."""

from __future__ import annotations

import subprocess
from base64 import b64decode
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from patchbay.access.audit.chain import AuditChain, read_lines, texts_of
from patchbay.rooms.record.canonical import Signer
from patchbay.store import Journal
from patchbay.stores.memory import MemoryStore

CID = "bafkreigh2akiscaildcqabsyg3dfr6chu3fgpregiymsck7e7aqa4s52zy"

PEM_PREFIX = bytes.fromhex("302a300506032b6570032100")
"""The beginning of an Ed25519 public key in DER (RFC 8410); the 32 bytes of the key follow."""


def call(number: int, **others: Any) -> dict[str, Any]:
    """A row of one call."""
    row: dict[str, Any] = {
        "agent": "",
        "approval": None,
        "arguments": CID,
        "at": 1_700_000_000_000 + number,
        "code": None,
    }
    row |= {"configuration": CID, "decision": {"allowed": True, "because": "grant 1", "document": CID}}
    row |= {"definition": CID, "kept": False, "kind": "call", "method": "tools/call", "name": f"tool{number % 7}"}
    row |= {"outcome": "ok", "principal": "key:ann", "record": f"{number}-0", "result": CID, "server": "notes"}
    return row | {"tool": CID, "us": 400 + number % 50, "version": CID, "way": "http"} | others


def signer() -> Signer:
    """The key of the hub in these tests."""
    return Signer(b"k" * 32)


def made_journal(rows: int, batch: int = 500) -> Journal:
    """A journal with a chain of so many calls, and a signed head at its end."""
    journal = MemoryStore().journal
    chain = AuditChain(journal, signer())
    for start in range(0, rows, batch):
        chain.append([call(number) for number in range(start, min(start + batch, rows))])
    chain.sign()
    return journal


def exported(journal: Journal, since: float = 0.0) -> list[bytes]:
    """The lines of an exported file, with their line feeds."""
    return list(texts_of(read_lines(journal, since)))


def write_public_key(path: Path, key: str) -> None:
    """Write a public key (base64) as DER."""
    path.write_bytes(PEM_PREFIX + b64decode(key))


def openssl_digests(folder: Path, lines: list[bytes]) -> list[bytes]:
    """The SHA-256 digests of lines without their line feeds, as `openssl dgst` computes them."""
    paths = [folder / f"{number:06}" for number in range(len(lines))]
    for path, line in zip(paths, lines, strict=True):
        path.write_bytes(line.rstrip(b"\n"))
    digests: list[bytes] = []
    for start in range(0, len(paths), 1000):
        names = [path.name for path in paths[start : start + 1000]]
        done = subprocess.run(
            ["openssl", "dgst", "-sha256", "-r", *names], cwd=folder, check=True, capture_output=True, text=True
        )
        digests += [bytes.fromhex(row.split()[0]) for row in done.stdout.splitlines()]
    return digests


def is_openssl_signature(folder: Path, head: bytes) -> bool:
    """Whether `openssl pkeyutl` accepts the signature of the line of a head, for the row without its `sig`."""
    row: Mapping[str, Any] = orjson.loads(head)
    body, signature, key = folder / "body", folder / "signature", folder / "key"
    body.write_bytes(head.rstrip(b"\n").replace(b',"sig":"%b"' % row["sig"].encode(), b""))
    signature.write_bytes(b64decode(row["sig"]))
    write_public_key(key, row["key"])
    command = ["openssl", "pkeyutl", "-verify", "-pubin", "-keyform", "DER", "-inkey", str(key), "-rawin"]
    done = subprocess.run([*command, "-in", str(body), "-sigfile", str(signature)], check=False, capture_output=True)
    return done.returncode == 0


def cid_of_digest(digest: bytes) -> str:
    """The CID of a SHA-256 digest: base16, version 1, raw, sha2-256, 32 bytes."""
    return "f01551220" + digest.hex()
