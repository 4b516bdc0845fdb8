"""POST /blobs: what it answers, what it refuses, and what it leaves."""

from __future__ import annotations

import io
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from patchbay.catalogue.contents.results import PIECE_BYTES
from patchbay.cid import cid_of
from tests.access.team import new_key, team_hub
from tests.hubs import Hub


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    found = Hub(tmp_path, {}, upload_limit=4 * 1024 * 1024)
    yield found
    found.close()


def post(hub: Hub, data: bytes, **headers: str) -> Any:
    return hub.client.post("/blobs", data=data, headers={name.replace("_", "-"): one for name, one in headers.items()})


def read(hub: Hub, uri: str) -> bytes:
    """The content of a link, as resources/read and /cid give it."""
    answer = hub.client.get(f"/cid/{uri.removeprefix('cid://')}", headers={"Accept": "*/*"})
    assert answer.status_code == 200, answer.text
    return bytes(answer.data)


@pytest.mark.parametrize("size", [0, 1, PIECE_BYTES, PIECE_BYTES + 1, 3 * 1024 * 1024])
def test_an_upload_is_answered_with_its_link_which_opens_it(hub: Hub, size: int) -> None:
    data = (bytes(range(251)) * (size // 251 + 1))[:size]
    answer = post(hub, data)
    found = orjson.loads(answer.data)
    assert answer.status_code == 201 and answer.headers["Cache-Control"] == "no-store"
    assert found == {"cid": cid_of(data), "uri": found["uri"], "bytes": size}
    assert found["uri"].startswith(f"cid://{found['cid']}?key=") and read(hub, found["uri"]) == data


def test_an_upload_that_comes_again_has_the_same_link_and_is_stored_once(hub: Hub) -> None:
    data = b"a" * (PIECE_BYTES * 2)
    first, second = orjson.loads(post(hub, data).data), orjson.loads(post(hub, data).data)
    assert first == second
    ledger = hub.catalogue.contents.results.ledger
    assert len(data) <= ledger.used("local", "stored").bytes < len(data) + 1000


def test_an_upload_is_never_whole_in_memory(hub: Hub) -> None:
    """The memory store of the tests keeps the pieces, so only what is above them is counted."""
    size = 4 * 1024 * 1024
    pieces: list[int] = []
    journal = hub.catalogue.store.journal
    append = journal.append

    def noting(topic: str, data: bytes, keep: float | None = None) -> int:
        pieces.append(len(data))
        return int(append(topic, data, keep))

    journal.append = noting
    post(hub, b"warm")
    body = _Zeros(size)
    tracemalloc.start()
    answer = hub.client.post("/blobs", input_stream=body)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert answer.status_code == 201 and max(pieces) <= PIECE_BYTES
    assert peak < size + 4 * PIECE_BYTES  # the store, and a few pieces


class _Zeros(io.RawIOBase):
    """A body of zeros that is made while it is read; `taken` bytes were read."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._at = self.taken = 0

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """The test client asks for the length in this way."""
        self._at = offset + (self._size if whence == io.SEEK_END else 0)
        return self._at

    def readinto(self, buffer: Any) -> int:
        size = min(len(buffer), self._size - self._at)
        buffer[:size] = bytes(size)
        self._at += size
        self.taken += size
        return size


def test_a_body_that_announces_too_much_is_refused_before_it_is_read(hub: Hub) -> None:
    body = _Zeros(5 * 1024 * 1024)
    answer = hub.client.post("/blobs", input_stream=body)
    assert answer.status_code == 413 and "(setting upload_limit)" in answer.text and body.taken == 0


def test_a_chunked_body_is_read_to_its_limit_and_no_further(hub: Hub) -> None:
    body = _Zeros(50 * 1024 * 1024)
    chunked = {"CONTENT_LENGTH": "", "HTTP_TRANSFER_ENCODING": "chunked"}
    answer = hub.client.post("/blobs", input_stream=body, environ_overrides=chunked)
    assert answer.status_code == 413 and body.taken <= 4 * 1024 * 1024 + PIECE_BYTES
    assert hub.catalogue.contents.results.ledger.used("local", "stored").bytes == 0


def test_a_body_that_is_cut_off_leaves_nothing(hub: Hub) -> None:
    answer = hub.client.post("/blobs", data=b"a" * 1000, environ_overrides={"CONTENT_LENGTH": "2000"})
    assert answer.status_code == 400 and "Content-Length says 2000" in answer.text
    assert hub.catalogue.contents.results.ledger.used("local", "stored") == (0, 0)


def test_an_upload_above_the_quota_of_its_caller_is_refused(tmp_path: Path) -> None:
    found = Hub(tmp_path, {}, result_size=1000)
    answer = post(found, b"a" * 1001)
    assert answer.status_code == 413 and "quota bytes_stored" in answer.text
    found.close()


def test_the_oldest_uploads_make_room_for_new_ones(tmp_path: Path) -> None:
    found = Hub(tmp_path, {}, result_size=3 * PIECE_BYTES)
    links = [orjson.loads(post(found, bytes([number]) * 2 * PIECE_BYTES).data)["uri"] for number in range(3)]
    assert found.client.get(f"/cid/{links[0].removeprefix('cid://')}").status_code == 404
    assert read(found, links[2]) == bytes([2]) * 2 * PIECE_BYTES
    assert found.catalogue.contents.results.ledger.used("local", "stored").bytes <= 3 * PIECE_BYTES
    found.close()


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Content-Encoding": "gzip"}, 415),
        ({"Content-Range": "bytes 0-3/9"}, 400),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Origin": "https://evil.example"}, 403),
    ],
)
def test_what_is_no_whole_content_or_comes_from_another_site_is_refused(
    hub: Hub, headers: dict[str, str], status: int
) -> None:
    assert hub.client.post("/blobs", data=b"abcd", headers=headers).status_code == status
    assert hub.catalogue.contents.results.ledger.used("local", "stored") == (0, 0)


def test_a_shared_hub_needs_credentials_and_an_open_one_knows_no_uploads_of_strangers(tmp_path: Path) -> None:
    shared = team_hub(tmp_path / "shared", {})
    assert post(shared, b"abc").status_code == 401
    assert post(shared, b"abc", **new_key(shared, "ann")).status_code == 201
    shared.close()
    found = Hub(tmp_path / "open", {}, access="open")
    answer = post(found, b"abc")
    assert answer.status_code == 403 and "an upload needs an owner" in answer.text
    found.close()
