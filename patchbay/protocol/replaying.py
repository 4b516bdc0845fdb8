"""Repeats a recorded call and compares the CIDs of the two results.

The call goes to the recorded version of the server, with the recorded arguments and in the recorded revision, as the
operator. A tool whose result depends on the time, on its state or on other servers gives another result.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from patchbay.access.audit.chain import find_row
from patchbay.access.audit.rows import Row
from patchbay.access.principals import LOCAL_OPERATOR
from patchbay.activity.records import Record
from patchbay.activity.retention import encode_content, whole_digest
from patchbay.cid import canonical, cid_of, cid_of_digest
from patchbay.errors import InvalidParams
from patchbay.jsonrpc import Failure, Request, Result
from patchbay.messages.callers import TransportInfo
from patchbay.messages.versions import LEGACY, MODERN
from patchbay.protocol.admission.admission import CAPABILITIES, VERSION
from patchbay.protocol.dispatch import Dispatcher

WAY = "replay"
"""The entry point in the record of a repeated call."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """A repeated call: its record, and the CIDs of the recorded and the new result."""

    record: Record
    was: str
    now: str

    @property
    def is_equal(self) -> bool:
        """Whether both results have the same bytes."""
        return self.was == self.now


def find_record(dispatcher: Dispatcher, id: str) -> Record:
    """Return the record with an id such as `120-3`, or of the audit row with a seq such as `57`.

    Raises InvalidParams for an unknown record, and for a record that is not the call of its row.
    """
    activity, row = dispatcher.services.activity, None
    if id.isascii() and id.isdigit():
        row = find_row(dispatcher.services.catalogue.store.journal, int(id))
        if row is None or not row.get("record"):
            raise InvalidParams(f"the audit chain has no row {id} of a call with a record")
        id = row["record"]
    record = activity.find(id)
    if record is None:
        raise InvalidParams(f"there is no record {id}; the hub deletes old records (setting activity_days)")
    if row is not None and not _is_of(record, row):
        raise InvalidParams(f"the record {id} is not the call of row {row['seq']}: one of them was changed")
    return record


def replay(dispatcher: Dispatcher, record: Record) -> Replayed:
    """Make the call of a record again. Raises InvalidParams for a record without its arguments or its result."""
    if record.arguments is None or record.answer_cid is None:
        raise InvalidParams(
            f"the record {record.id} has no arguments or no result; a hub with --activity-contents keep stores them, up"
            " to 16 KiB of each, except secret ones"
        )
    endpoint = f"{record.server}@{record.version}"
    revision = record.revision or MODERN[-1]
    headers = {"mcp-protocol-version": revision} if revision in LEGACY else None
    wire = TransportInfo(endpoint, headers, LOCAL_OPERATOR, way=WAY, operator=True)
    request = Request(1, record.method, _params(record, revision))
    answers = list(dispatcher.exchange(wire)(request))
    last = answers[-1] if answers else None
    if isinstance(last, Failure):
        return Replayed(record, record.answer_cid, _cid(last.error))
    if not isinstance(last, Result) or not isinstance(last.result, Mapping):
        raise InvalidParams(f"the repeated call of {record.id} has no result")
    return Replayed(record, record.answer_cid, _cid(last.result))


def _params(record: Record, revision: str) -> dict[str, Any]:
    if record.method == "resources/read":
        params: dict[str, Any] = dict(record.arguments)  # its name may be the template of the URI
    else:
        params = {"name": record.name, "arguments": record.arguments}
    if revision not in LEGACY:
        params["_meta"] = {VERSION: revision, CAPABILITIES: {}}
    return params


def _is_of(record: Record, row: Row) -> bool:
    """Whether a record is that of an audit row."""
    ours = (record.method, record.server, record.version, record.arguments_cid, record.answer_cid)
    contents = (None if row[name] is None else canonical(row[name]) for name in ("arguments", "result"))
    return ours == (row["method"], row["server"], row["version"], *contents)


def _cid(answer: Mapping[str, Any]) -> str:
    data = encode_content(answer)
    return cid_of(data) if data is not None else cid_of_digest(whole_digest(answer))
