"""The stored form of rows of calls: every line comes back as it was hashed (ACCESS 7)."""

from __future__ import annotations

from typing import Any

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from patchbay.access.audit.packed_rows import Draft, cid_text, pack_rows
from patchbay.access.audit.rows import Tip, decode_lines, line_cid, link_drafts, make_template
from tests.access.audit.chains import call

DIGESTS = st.one_of(st.just(""), st.binary(min_size=32, max_size=32).map(bytes.hex))
TEMPLATES = [
    make_template(call(0, name=name, outcome=outcome)) for name, outcome in (("100 %s %", "ok"), ("é", "error"))
]


@st.composite
def drafts(draw: st.DrawFn) -> Draft:
    record = draw(st.sampled_from(["null", '"12-0"', '"12-499"']))
    times = st.integers(0, 2**53 - 1)
    return draw(st.sampled_from(TEMPLATES)), draw(DIGESTS), draw(times), record, draw(DIGESTS), draw(times)


def content(digest: str) -> str | None:
    value: str | None = orjson.loads(cid_text(digest))
    return value


@settings(deadline=None, max_examples=200)
@given(st.lists(drafts(), min_size=1, max_size=30), st.integers(0, 2**40))
def test_every_row_comes_back_with_its_values_and_the_link_to_the_line_before(rows: list[Draft], seq: int) -> None:
    begin = Tip(entry=1, seq=seq, digest="ab" * 32)
    data, end = link_drafts(begin, rows)
    lines = decode_lines(data)
    assert end.seq == seq + len(rows) and end.cid == line_cid(lines[-1])
    previous = begin.cid
    for number, (line, (template, arguments, at, record, result, us)) in enumerate(zip(lines, rows, strict=True)):
        found: dict[str, Any] = orjson.loads(line)
        assert orjson.dumps(found, option=orjson.OPT_SORT_KEYS) == line, "canonical JSON"
        assert found["prev"] == previous and found["seq"] == seq + 1 + number
        assert (found["arguments"], found["result"]) == (content(arguments), content(result))
        assert (found["at"], found["us"], found["record"]) == (at, us, orjson.loads(record))
        assert found["name"] == ("100 %s %" if template is TEMPLATES[0] else "é")
        previous = line_cid(line)


def test_a_row_of_a_call_needs_less_than_150_bytes() -> None:
    rows: list[Draft] = [
        (TEMPLATES[0], "ab" * 32, 1_700_000_000_000 + n, f'"12-{n}"', "cd" * 32, 400 + n) for n in range(500)
    ]
    assert len(pack_rows(1, rows, ["ef" * 32] * 500)) < 150 * 500


def test_rows_that_earlier_versions_stored_are_read() -> None:
    """They have a template and JSON values for each row, and no column of digests."""
    template = TEMPLATES[0].text
    cid = orjson.dumps("f01551220" + "ab" * 32).decode()
    stored = orjson.dumps([[template], [(0, cid, 17, "cd" * 32, '"12-0"', "null", 5, 400)]])
    (line,) = decode_lines(stored)
    row = orjson.loads(line)
    assert (row["arguments"], row["at"], row["prev"]) == ("f01551220" + "ab" * 32, 17, "f01551220" + "cd" * 32)
    assert (row["record"], row["result"], row["seq"], row["us"]) == ("12-0", None, 5, 400)
