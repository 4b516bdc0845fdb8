"""CIDs: equal to those of other implementations, one spelling each, and an error message for other text."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from multiformats import CID, multihash

from patchbay.cid import MAX_CID_CHARACTERS, canonical, cid_of, content_in, digest_in, is_cid, is_content, verify
from patchbay.errors import BadCid, CorruptBlob

HELLO_CID = "bafkreibm6jg3ux5qumhcn2b3flc3tyu6dmlb4xa7u5bf44yegnrjhc4yeq"


def identity(data: bytes) -> str:
    return str(CID("base32", 1, "raw", multihash.digest(data, "identity")))


def test_known_bytes_have_the_cid_that_ipfs_gives_them() -> None:
    """The values of `ipfs add --cid-version=1 --raw-leaves --only-hash`."""
    assert cid_of(b"hello") == HELLO_CID
    assert cid_of(b"") == "bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku"


@given(st.binary(max_size=2000))
def test_a_cid_carries_the_sha256_of_its_content_and_verifies_it(data: bytes) -> None:
    text = cid_of(data)
    assert CID.decode(text).raw_digest == hashlib.sha256(data).digest()
    assert canonical(text) == text == verify(text, data)
    assert content_in(text) is None
    assert text.startswith("bafkrei")
    assert digest_in(cid_of(data)) == hashlib.sha256(data).digest() and is_content(cid_of(data), data)


@given(st.binary(max_size=2000))
def test_it_is_written_as_the_library_writes_it(data: bytes) -> None:
    assert cid_of(data) == str(CID("base32", 1, "raw", multihash.digest(data, "sha2-256")))
    assert canonical(cid_of(data)) == str(CID.decode(cid_of(data)))


@pytest.mark.parametrize("place", [7, 58])
def test_the_characters_that_hold_fixed_bits_too_are_those_of_the_library(place: int) -> None:
    text = cid_of(b"hello")
    for other in "abcdefghijklmnopqrstuvwxyz234567":
        changed = text[:place] + other + text[place + 1 :]
        try:
            expected = str(CID.decode(changed)) == changed
        except ValueError:
            expected = False
        assert is_cid(changed) is expected


@given(st.binary(max_size=20), st.integers(8, 58), st.sampled_from("abcdefghijklmnopqrstuvwxyz234567"))
def test_a_cid_with_one_character_changed_is_another_or_none(data: bytes, place: int, other: str) -> None:
    text = cid_of(data)
    changed = text[:place] + other + text[place + 1 :]
    if is_cid(changed):
        assert canonical(changed) == changed == str(CID.decode(changed))
    else:
        assert changed != text


@given(st.binary(max_size=2000), st.binary(max_size=2000))
def test_two_contents_never_share_a_cid(one: bytes, other: bytes) -> None:
    assert (cid_of(one) == cid_of(other)) == (one == other)


@given(st.binary(max_size=300))
def test_an_identity_cid_carries_its_content(data: bytes) -> None:
    """T6.4"""
    text = identity(data)
    assert content_in(text) == data
    assert verify(text, data) == text
    with pytest.raises(CorruptBlob):
        verify(text, data + b"x")


@given(st.binary(max_size=200), st.sampled_from(["base16", "base32upper", "base58btc", "base64url", "base36"]))
def test_every_spelling_of_a_cid_has_one_canonical_form(data: bytes, base: str) -> None:
    other = str(CID.decode(cid_of(data)).set(base=base))
    assert canonical(other) == cid_of(data)


@given(st.text(max_size=100) | st.text("abcdefghijklmnopqrstuvwxyz234567", max_size=100).map("b".__add__))
def test_any_text_is_a_cid_or_refused_with_a_sentence(text: str) -> None:
    if is_cid(text):
        assert canonical(canonical(text)) == canonical(text)
    else:
        with pytest.raises(BadCid, match=r"not a CID"):
            canonical(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "bafkrei",
        HELLO_CID[:-1],
        HELLO_CID + "a",
        " " + HELLO_CID,
        HELLO_CID + "\n",
        "../" + HELLO_CID,
        "f" + "0" * MAX_CID_CHARACTERS,
        "QmY7Yh4UquoXHLPFo2XbhXkhBvFoPwmQUSa92pxnxjQuPU",
        str(CID("base32", 1, "dag-pb", multihash.digest(b"hello", "sha2-256"))),
        str(CID("base32", 1, "raw", multihash.digest(b"hello", "sha2-512"))),
        str(CID("base32", 1, "raw", multihash.digest(b"hello", "sha1"))),
        str(CID("base32", 1, "raw", multihash.digest(b"hello", "sha2-256", size=20))),
    ],
)
def test_a_text_that_is_not_a_cid_is_refused(text: str) -> None:
    with pytest.raises(BadCid):
        canonical(text)


@given(st.binary(min_size=1, max_size=200), st.data())
def test_a_flipped_bit_is_noticed(data: bytes, draw: st.DataObject) -> None:
    place = draw.draw(st.integers(0, len(data) * 8 - 1))
    flipped = bytearray(data)
    flipped[place // 8] ^= 1 << place % 8
    with pytest.raises(CorruptBlob, match=cid_of(data)):
        verify(cid_of(data), bytes(flipped))
