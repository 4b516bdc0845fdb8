"""The limit on the body of a request, with its length announced and without."""

from __future__ import annotations

import io

import pytest

from patchbay.errors import TooLarge
from patchbay.wire.request_bodies import read_body


@pytest.mark.parametrize("is_announced", [True, False])
def test_a_body_of_the_limit_is_read_and_one_byte_more_is_refused(is_announced: bool) -> None:
    def read(data: bytes) -> bytes:
        length = {"CONTENT_LENGTH": str(len(data))} if is_announced else {}
        return read_body({"wsgi.input": io.BytesIO(data), "wsgi.input_terminated": True, **length}, 10)

    assert read(b"0123456789") == b"0123456789"
    with pytest.raises(TooLarge, match="expected at most 10"):
        read(b"0123456789x")
