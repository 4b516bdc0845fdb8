"""A key tries to give its tools the contents of others: by links of theirs, by CIDs that it knows, by other spellings.

Each attempt is answered in the same words as a link to what the hub never had. Then it uploads in ways that should
leave more than its quota.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import orjson
import pytest
from multiformats import CID

from patchbay.catalogue.contents.ledger import STORED, owner_of
from patchbay.catalogue.contents.results import PIECE_BYTES
from patchbay.cid import cid_of
from patchbay.topics import BOOT, RESULTS, ROOT
from tests.access.team import new_key
from tests.attacks.leftovers import left, settled, shared_hub, two_nodes
from tests.databases import PostgresqlServer
from tests.hubs import Answer, Hub
from tests.waiting import until

TOOL = '''"""Takes a content."""


def show(data: bytes) -> str:
    """Show some bytes."""
    return data.decode("latin-1")
'''
FILES = {"taker.py": TOOL, "taker.mcp.json": '{"isolation": "inline"}'}
NOWHERE = f"cid://{cid_of(b'this hub never had these bytes')}?key=x"
OWN = b"what ann uploaded " * 10


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    found = shared_hub(tmp_path_factory.mktemp("links"), FILES, result_size=8 * PIECE_BYTES)
    yield found
    found.close()


@pytest.fixture(scope="module")
def ann(hub: Hub) -> dict[str, str]:
    return new_key(hub, "ann")


@pytest.fixture(scope="module")
def eve(hub: Hub) -> dict[str, str]:
    return new_key(hub, "eve")


@pytest.fixture(scope="module")
def link(hub: Hub, ann: dict[str, str]) -> str:
    return upload(hub, OWN, ann)


def upload(hub: Hub, data: bytes, headers: dict[str, str]) -> str:
    answer = hub.client.post("/blobs", data=data, headers=headers)
    assert answer.status_code == 201, answer.text
    return str(orjson.loads(answer.data)["uri"])


def show(hub: Hub, link: str, headers: dict[str, str]) -> Answer:
    return hub.modern("taker", "tools/call", {"name": "show", "arguments": {"data": link}}, headers=headers)


def assert_like_nothing(hub: Hub, link: str, headers: dict[str, str]) -> None:
    """The answer to this link is that to a content that the hub never had."""
    answer, absent = show(hub, link, headers), show(hub, NOWHERE, headers)
    assert answer.status == absent.status and answer.result == absent.result
    assert answer.result["isError"] and "there is no content of yours at this link" in answer.text


def test_the_link_of_another_caller_is_like_one_that_is_not_there(
    hub: Hub, link: str, ann: dict[str, str], eve: dict[str, str]
) -> None:
    assert show(hub, link, ann).text == OWN.decode()
    assert_like_nothing(hub, link, eve)


def test_the_same_bytes_uploaded_by_another_open_by_the_own_key_alone(
    hub: Hub, link: str, ann: dict[str, str], eve: dict[str, str]
) -> None:
    """The CID is the same, and the key is not."""
    own = upload(hub, OWN, eve)
    assert own.partition("?")[0] == link.partition("?")[0] and own != link
    assert show(hub, own, eve).text == OWN.decode()
    assert_like_nothing(hub, link, eve)
    assert_like_nothing(hub, own, ann)


@pytest.mark.parametrize("key", ["", "?key=", "?key=x", "?key=é", "?" + "key=x&" * 20, "#key", "?KEY=x", "?key=\0"])
def test_a_cid_without_its_key_is_like_nothing(hub: Hub, link: str, ann: dict[str, str], key: str) -> None:
    assert_like_nothing(hub, link.partition("?")[0] + key, ann)


def test_contents_of_the_hub_itself_are_like_nothing(hub: Hub, eve: dict[str, str]) -> None:
    """The definition of a server, its configuration, the boot image, a secret value that a tool stored."""
    names = hub.catalogue.store.names.all()
    stored = hub.catalogue.store.blobs.put(b"a secret that a tool stored")
    cids = [stored, *names.values()]
    assert any(name.startswith(("servers/", ROOT, BOOT)) for name in names)
    for cid in dict.fromkeys(cids):
        for form in (f"cid://{cid}", f"cid://{cid}?key=", f"cid://{cid}?key=x"):
            assert_like_nothing(hub, form, eve)


def test_an_identity_cid_is_no_upload(hub: Hub, eve: dict[str, str]) -> None:
    """It carries its content, so that anybody could make a link of it."""
    assert_like_nothing(hub, "cid://bafkqaatine", eve)


def spellings(link: str) -> dict[str, str]:
    """Other ways to write the CID of a link."""
    cid, _, query = link.removeprefix("cid://").partition("?")
    parsed = CID.decode(cid)
    return {
        "upper case of base 32": f"cid://{parsed.set(base='base32upper')}?{query}",
        "base 58": f"cid://{parsed.set(base='base58btc')}?{query}",
        "base 16": f"cid://{parsed.set(base='base16')}?{query}",
        "upper case of the scheme": f"CID://{cid}?{query}",
    }


def test_other_spellings_of_the_own_link_open_it_and_those_of_others_do_not(
    hub: Hub, link: str, ann: dict[str, str], eve: dict[str, str]
) -> None:
    for form in spellings(link).values():
        assert show(hub, form, ann).text == OWN.decode(), form
        assert_like_nothing(hub, form, eve)


@pytest.mark.parametrize(
    "wrong", ["bafkrei{}x", "bafkrei", "Qm{}", "../{}", "%62afkrei{}", "bafkrei{}/../x", "f0155{}", " {}"]
)
def test_a_wrong_spelling_is_like_nothing(hub: Hub, link: str, ann: dict[str, str], wrong: str) -> None:
    cid, _, query = link.removeprefix("cid://").partition("?")
    assert_like_nothing(hub, f"cid://{wrong.format(cid.removeprefix('bafkrei'))}?{query}", ann)


def test_a_range_of_a_content_needs_the_key_too(hub: Hub, link: str, eve: dict[str, str]) -> None:
    place = "/cid/" + link.removeprefix("cid://")
    answer = hub.client.get(place, headers={**eve, "Range": "bytes=0-3"})
    assert answer.status_code == 404 and b"what" not in answer.data
    sent = hub.client.post("/blobs", data=b"what", headers={**eve, "Content-Range": "bytes 0-3/9"})
    assert sent.status_code == 400


def test_an_archive_of_many_uploads_is_one_content(hub: Hub, eve: dict[str, str]) -> None:
    """Nothing is unpacked: what is compressed is stored as it came, and a coding of the body is refused."""
    packed = gzip.compress(bytes(100 * PIECE_BYTES))
    assert show(hub, upload(hub, packed, eve), eve).text.encode("latin-1") == packed
    coded = hub.client.post("/blobs", data=packed, headers={**eve, "Content-Encoding": "gzip"})
    assert coded.status_code in (415, 501)


def test_many_uploads_of_one_key_stay_within_its_quota(hub: Hub, link: str, ann: dict[str, str]) -> None:
    """Those of others stay."""
    mallory = new_key(hub, "mallory")
    for number in range(24):
        upload(hub, bytes([number]) * (PIECE_BYTES * 2), mallory)
    ledger = hub.catalogue.contents.results.ledger
    assert ledger.used("key:mallory", STORED).bytes <= 8 * PIECE_BYTES
    stored = left(hub.catalogue.store, f"{RESULTS}{owner_of('key:mallory')}")
    assert stored.bytes < 9 * PIECE_BYTES
    assert show(hub, link, ann).text == OWN.decode()


def test_uploads_of_the_same_bytes_at_the_same_time_are_whole(hub: Hub, eve: dict[str, str]) -> None:
    """Their pieces do not mix."""
    data = bytes(range(256)) * (PIECE_BYTES // 128)

    def send(_: int) -> str:
        answer = hub.app.test_client().post("/blobs", data=data, headers=eve)
        assert answer.status_code == 201, answer.text
        return str(orjson.loads(answer.data)["uri"])

    with ThreadPoolExecutor(8) as pool:
        links = list(pool.map(send, range(16)))
    assert len(set(links)) == 1
    assert hub.client.get(f"/cid/{links[0].removeprefix('cid://')}", headers=eve).data == data


def test_the_name_of_a_file_is_not_asked_for(hub: Hub, eve: dict[str, str]) -> None:
    """A form with a file is a content like any other: no part of it becomes a path."""
    headers = {**eve, "Content-Type": "multipart/form-data; boundary=x"}
    body = b'--x\r\nContent-Disposition: form-data; name="file"; filename="../../etc/passwd"\r\n\r\nroot\r\n--x--\r\n'
    link = upload(hub, body, headers)
    assert show(hub, link, eve).text.encode("latin-1") == body


def test_an_upload_that_is_cut_off_leaves_nothing(hub: Hub, eve: dict[str, str]) -> None:
    settled()
    before = left(hub.catalogue.store, RESULTS)
    for size in (10, PIECE_BYTES, 3 * PIECE_BYTES):
        sent = {"data": b"a" * size, "headers": eve, "environ_overrides": {"CONTENT_LENGTH": str(size + 1)}}
        answer = hub.client.post("/blobs", **sent)
        assert answer.status_code == 400
    assert left(hub.catalogue.store, RESULTS) == before


def test_an_upload_at_one_node_opens_at_another_for_its_owner_alone(
    tmp_path: Path, postgresql: PostgresqlServer
) -> None:
    """Also a large one, whose pieces are entries of their own."""
    with two_nodes(tmp_path, postgresql.new_schema()) as (one, other):
        for hub in (one, other):
            (hub.servers / "taker.py").write_text(TOOL)
            hub.catalogue.refresh()
        ann, eve = new_key(one, "ann"), new_key(one, "eve")
        until(lambda: "taker" in {server.name for server in other.catalogue.all()}, "the other node serves the tool")
        for data in (b"small", b"x" * (2 * PIECE_BYTES)):
            link = upload(one, data, ann)
            assert show(other, link, ann).text.startswith(data[:1000].decode())
            assert_like_nothing(other, link, eve)


@pytest.mark.parametrize("value", [["cid://x"] * 100, {"a": "cid://x"}, 3, None])
def test_a_value_of_another_type_is_refused_by_the_schema(hub: Hub, eve: dict[str, str], value: Any) -> None:
    answer = hub.modern("taker", "tools/call", {"name": "show", "arguments": {"data": value}}, headers=eve)
    assert answer.result["isError"]
