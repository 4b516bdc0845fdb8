"""The row of the audit chain for a decision about a call that needed an approval: who decided what about which call.

`arguments` is the CID that the row of the call itself has, so that the two rows can be compared; `approval` is the id
that the row of the approved call repeats.
"""

from __future__ import annotations

import orjson

from patchbay.access.approvals import Approval
from patchbay.access.audit.packed_rows import CID_PREFIX
from patchbay.access.audit.rows import APPROVAL, Row
from patchbay.cid import digest_in
from patchbay.descriptors import encodable


def approval_row(approval: Approval) -> Row:
    """Return the row of a decided approval, without `seq` and `prev`. Times are Unix times in milliseconds."""
    call, digest = approval.call, digest_in(approval.call.arguments_cid)
    assert approval.decided is not None and digest is not None
    row: Row = {
        "approval": approval.id,
        "arguments": CID_PREFIX + digest.hex(),
        "at": int(approval.decided * 1000),
        "by": approval.by,
        "decision": approval.state,
        "expires": int(approval.expires * 1000),
        "kind": APPROVAL,
        "name": call.tool,
        "principal": call.principal,
        "server": call.server,
        "tool": call.tool_digest,
        "version": call.version,
    }
    if call.origins:
        row["origins"] = orjson.loads(call.origins)
    return {name: encodable(value) if isinstance(value, str) else value for name, value in row.items()}
