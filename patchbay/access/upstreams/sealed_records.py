"""Records of the journal that are encrypted with the key of the hub.

Each value is sealed for its own topic (`patchbay/coordination/sealing.py`), so that a stored value cannot be moved to
another principal. Only the newest entry of a topic is kept.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from patchbay.coordination.records import Records, decode_record, encode_record
from patchbay.coordination.sealing import Sealing
from patchbay.errors import ContentError
from patchbay.store import Journal

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Sealed:
    """An encrypted value: nonce and ciphertext, as base64."""

    sealed: str


class SealedRecords(Generic[Value]):
    """The encrypted records of one model, each under its own topic. `key` is the secret key of the hub."""

    def __init__(self, journal: Journal, model: type[Value], key: bytes) -> None:
        self._journal = journal
        self._model = model
        self._records = Records(journal, Sealed)
        self._sealing = Sealing(key, b"tokens at upstreams")

    def load(self, topic: str) -> tuple[Value | None, int]:
        """Return a record and the seq of its entry; (None, 0) without one.

        A record that this key cannot open counts as absent: the principal signs in again.
        """
        try:
            found, seq = self._records.load(topic)
        except ContentError:
            return None, self._journal.last(topic)
        return (None, seq) if found is None else (self._open(topic, found), seq)

    def update(self, topic: str, change: Callable[[Value | None], Value | None], keep: float | None = None) -> bool:
        """Replace a record by what `change` makes of it; False if `change` returns None, which changes nothing.

        `change` may run several times, each time with the present value.
        """

        def sealed(old: Sealed | None) -> Sealed | None:
            new = change(None if old is None else self._open(topic, old))
            return None if new is None else self.seal(topic, new)

        if not self._records.update(topic, sealed, keep):
            return False
        self._journal.remove(topic, self._journal.last(topic))
        return True

    def seal(self, topic: str, value: Value) -> Sealed:
        """Return a value as the record of a topic has it, for a caller that writes several records at once."""
        data = self._sealing.seal(encode_record(value), topic.encode())
        return Sealed(sealed=base64.b64encode(data).decode())

    def _open(self, topic: str, found: Sealed) -> Value | None:
        try:
            plain = self._sealing.open(base64.b64decode(found.sealed), topic.encode())
            return None if plain is None else decode_record(self._model, plain)
        except ValueError:
            return None
