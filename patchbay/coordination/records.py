"""Records in the journal: the newest entry of a topic is the present value of one record.

The journal is not content-addressed and no page shows it, so it may hold hashes of secrets. Every worker reads the same
journal, so a change counts for the next request of each worker. A change names the entry that it was made from;
of two changes at once, one is made again from the other's value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Generic, TypeVar, cast

from patchbay.errors import ContentError, StaleUpdate
from patchbay.store import Journal

MAX_OLD_BYTES = 256 * 1024
"""Bytes of past values that a topic keeps; the newest value is always smaller."""

Value = TypeVar("Value")
"""A frozen dataclass, or a model of pydantic."""


@dataclass(frozen=True, slots=True)
class Write:
    """One new value of a record. `keep` is its lifetime in seconds (None: unlimited)."""

    topic: str
    value: object
    keep: float | None = None


class Records(Generic[Value]):
    """The records of one model, each under its own topic."""

    def __init__(self, journal: Journal, model: type[Value]) -> None:
        self._journal = journal
        self._model = model

    def load(self, topic: str) -> tuple[Value | None, int]:
        """Return a record and the seq of its entry; (None, 0) without a record. Raises ContentError if damaged."""
        newest = self._journal.tail(topic, 1)
        if not newest:
            return None, 0
        try:
            return decode_record(self._model, newest[0].data), newest[0].seq
        except ValueError as problem:
            raise ContentError(f"the stored record of {topic.partition('/')[0]} cannot be read") from problem

    def update(
        self,
        topic: str,
        change: Callable[[Value | None], Value | None],
        keep: float | None = None,
        along: Callable[[Value | None, Value], Sequence[Write]] = lambda old, new: (),
    ) -> bool:
        """Replace a record by what `change` makes of it; False if `change` returns None, which changes nothing.

        `change` may run several times, each time with the present value. `along` returns what is written in the same
        transaction, from the old value and the new one.
        """
        while True:
            old, seq = self.load(topic)
            new = change(old)
            if new is None:
                return False
            try:
                write_records(self._journal, [Write(topic, new, keep), *along(old, new)], {topic: seq})
            except StaleUpdate:
                continue
            return True


def write_records(journal: Journal, writes: Sequence[Write], last: Mapping[str, int]) -> None:
    """Write records in one transaction. Raises StaleUpdate if the newest entry of a topic is not the one in `last`."""
    entries = [(one.topic, encode_record(one.value), one.keep) for one in writes]
    for topic, data, _ in entries:
        if len(data) > MAX_OLD_BYTES // 2:
            raise ContentError(f"the record of {topic.partition('/')[0]} is too large: {len(data)} bytes")
    journal.append_all(entries, last)
    for topic in {one.topic for one in writes}:
        journal.trim(topic, MAX_OLD_BYTES)


def encode_record(value: object) -> bytes:
    """Return a dataclass or a model as JSON."""
    data: bytes = _adapter(cast(Any, type(value))).dump_json(value)
    return data


def decode_record(model: type[Value], data: bytes) -> Value:
    """Return a dataclass or a model from its JSON. Raises ValueError for other JSON."""
    value: Value = _adapter(cast(Any, model)).validate_json(data)
    return value


@cache
def _adapter(model: Any) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(model)
