"""Verification of an exported chain: openssl agrees, and every changed, missing or moved row is named."""

from __future__ import annotations

import subprocess
import sys
from base64 import b64decode, encodebytes
from bisect import bisect_right
from hashlib import sha256
from itertools import accumulate
from pathlib import Path
from random import Random

import orjson
import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st

from patchbay.access.audit.chain import HEAD_ROWS, AuditChain
from patchbay.access.audit.rows import row_bytes
from patchbay.access.audit.verification import load_public_key, split_lines, verify
from patchbay.errors import InvalidParams
from patchbay.rooms.record.canonical import Signer
from patchbay.stores.memory import MemoryStore
from tests.access.audit.chains import (
    PEM_PREFIX,
    call,
    cid_of_digest,
    exported,
    is_openssl_signature,
    made_journal,
    openssl_digests,
    signer,
)
from tests.checkout import ROOT

MANY = 100_000
FLIPS = 1000


@pytest.fixture(scope="module")
def lines() -> list[bytes]:
    """A chain of 260 calls with several heads in it."""
    journal = MemoryStore().journal
    chain = AuditChain(journal, signer())
    for number in range(0, 260, 13):
        chain.append([call(one) for one in range(number, number + 13)])
        if number % 39 == 0:
            chain.sign()
    chain.sign()
    return exported(journal)


@pytest.mark.slow
def test_a_chain_of_100000_rows_is_verified_by_openssl_and_by_the_hubs_own_verifier(tmp_path: Path) -> None:
    """ACCESS 7: plain openssl can check the chain."""
    found = exported(made_journal(MANY))
    verdict = verify(found)
    assert verdict.ok and verdict.rows == len(found) == MANY + verdict.heads
    assert verdict.heads > MANY // (1.5 * HEAD_ROWS)
    cids = [cid_of_digest(digest) for digest in openssl_digests(tmp_path, found)]
    rows = [orjson.loads(line) for line in found]
    assert [row["prev"] for row in rows] == [None, *cids[:-1]] and verdict.tip == cids[-1]
    heads = [line for line, row in zip(found, rows, strict=True) if row["kind"] == "head"]
    assert all(is_openssl_signature(tmp_path, head) for head in (heads[0], heads[len(heads) // 2], heads[-1]))
    assert not is_openssl_signature(tmp_path, heads[-1].replace(b'"at":1', b'"at":2'))


def test_every_flipped_byte_is_named_by_its_row(lines: list[bytes]) -> None:
    """ACCESS 7: a changed row is named."""
    data, ends = b"".join(lines), list(accumulate(map(len, lines)))
    random = Random(7)
    for _ in range(FLIPS):
        at, flip = random.randrange(len(data)), random.randrange(1, 256)
        changed = bytearray(data)
        changed[at] ^= flip
        verdict = verify(split_lines(bytes(changed)))
        assert verdict.wrong == bisect_right(ends, at) + 1, (at, flip, verdict)


def test_every_flipped_bit_of_the_first_and_the_last_row_is_named(lines: list[bytes]) -> None:
    data, ends = b"".join(lines), list(accumulate(map(len, lines)))
    for at in (*range(ends[0]), *range(ends[-2], len(data))):
        changed = bytearray(data)
        changed[at] ^= 1 << at % 8
        assert verify(split_lines(bytes(changed))).wrong == bisect_right(ends, at) + 1


def test_a_missing_row_is_named(lines: list[bytes]) -> None:
    for seq in range(2, len(lines)):
        verdict = verify(lines[: seq - 1] + lines[seq:])
        assert verdict.wrong == seq and "is missing" in verdict.reason
    assert verify(lines[1:]).wrong == 1
    assert verify(lines[:-1]).wrong == len(lines)
    assert verify([]).wrong == 1


def test_a_moved_row_is_named(lines: list[bytes]) -> None:
    for seq in range(2, len(lines) - 1):
        verdict = verify([*lines[: seq - 1], lines[seq], lines[seq - 1], *lines[seq + 1 :]])
        assert verdict.wrong == seq and "not in its place" in verdict.reason
    assert verify([*lines[:9], lines[4], *lines[9:]]).wrong == 10


def test_a_row_that_is_added_and_linked_again_breaks_the_next_signature(lines: list[bytes]) -> None:
    """A forger who rewrites every link from the changed row on fails at the next signed head."""
    rows = [orjson.loads(line) for line in lines]
    start = next(place for place, row in enumerate(rows) if place and row["kind"] == "call")
    rows[start]["principal"] = "key:bob"
    for place in range(start + 1, len(rows)):
        rows[place]["prev"] = cid(row_bytes(rows[place - 1]))
    verdict = verify([row_bytes(row) + b"\n" for row in rows])
    head = next(row["seq"] for row in rows[start:] if row["kind"] == "head")
    assert verdict.wrong == head and "signature" in verdict.reason


def test_a_chain_of_another_hub_and_a_shortened_one_are_refused_where_key_and_tip_are_given(
    lines: list[bytes], tmp_path: Path
) -> None:
    key, tip = verify(lines).key, verify(lines).tip
    assert key == signer().public and verify(lines, key, tip).ok
    assert "is signed by the key" in verify(lines, Signer(b"x" * 32).public).reason
    heads = [place for place, line in enumerate(lines) if b'"kind":"head"' in line]
    shortened = lines[: heads[-2] + 1]
    assert verify(shortened, key).ok
    assert verify(shortened, key, tip).wrong == heads[-2] + 2
    pem = tmp_path / "key.pem"
    inner = encodebytes(PEM_PREFIX + b64decode(key)).decode()
    pem.write_text(f"-----BEGIN PUBLIC KEY-----\n{inner}-----END PUBLIC KEY-----\n")
    assert load_public_key(str(pem)) == load_public_key(key) == key
    pem.write_text("no key")
    for wrong in (str(pem), str(tmp_path / "absent"), key[:-2]):
        with pytest.raises(InvalidParams, match="not an Ed25519 public key"):
            load_public_key(wrong)


def test_a_running_chain_may_end_with_unsigned_rows() -> None:
    journal = MemoryStore().journal
    AuditChain(journal, signer()).append([call(1), call(2)])
    found = exported(journal)
    assert verify(found).wrong == 4
    verdict = verify(found, is_running=True)
    assert verdict.ok and verdict.unsigned == 2


def test_the_script_of_the_documentation_verifies_a_chain_and_finds_a_changed_row(
    lines: list[bytes], tmp_path: Path
) -> None:
    """Issue 16: a short independent script can verify."""
    page = (ROOT / "docs" / "audit.md").read_text("utf-8")
    script = page.partition("```python\n")[2].partition("```")[0]
    file = tmp_path / "chain.ndjson"

    def run(data: bytes) -> int:
        file.write_bytes(data)
        command = [sys.executable, "-c", script, str(file)]
        return subprocess.run(command, cwd=tmp_path, check=False, capture_output=True).returncode

    data = b"".join(lines[:60])
    assert run(data) == 0
    assert run(data.replace(b'"tool5"', b'"tool6"', 1)) == 1
    assert run(data.replace(b'"sig":"', b'"sig":"A', 1)) == 1


@settings(deadline=None, max_examples=300)
@given(
    st.dictionaries(
        st.text("abcdefgz_", min_size=1),
        st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text(st.characters(codec="utf-8")),
    )
)
def test_a_row_is_canonical_json_of_rfc_8785(row: dict[str, object]) -> None:
    assert row_bytes(row) == rfc8785.dumps(row)  # type: ignore[arg-type]


def cid(line: bytes) -> str:
    return cid_of_digest(sha256(line).digest())
