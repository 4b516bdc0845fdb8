"""The table of the five revisions. Differences between revisions are data here, not branches in other modules.

Source: https://modelcontextprotocol.io/specification/versioning.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Revision:
    """One revision of the protocol and how it differs.

    `batches`: arrays of messages are served. `argument_errors`: wrong tool arguments are a JSON-RPC error
    (else a result with isError). `priming`: a stream begins with an empty event that carries an id.
    `absent` names the members of listed objects that this revision's schema does not have.
    `not_found` is the code of a missing resource. `details`: an error repeats its message in `data.details`, as servers
    of that time do.
    """

    name: str
    modern: bool = False
    batches: bool = False
    argument_errors: bool = False
    priming: bool = False
    audio: bool = True
    progress_messages: bool = True
    resource_links: bool = True
    structured: bool = True
    any_structure: bool = False
    elicitation: bool = True
    absent: frozenset[str] = frozenset()
    not_found: int = -32002
    details: bool = False


_AFTER_2025_06 = frozenset({"icons", "execution", "description@implementation", "websiteUrl"})
_AFTER_2025_03 = _AFTER_2025_06 | {"title", "outputSchema", "_meta", "extensions"}
_AFTER_2024_11 = _AFTER_2025_03 | {"annotations", "completions"}

_ROWS = (
    Revision(
        "2024-11-05",
        batches=True,
        argument_errors=True,
        audio=False,
        progress_messages=False,
        resource_links=False,
        structured=False,
        elicitation=False,
        details=True,
        absent=_AFTER_2024_11,
    ),
    Revision(
        "2025-03-26",
        batches=True,
        argument_errors=True,
        resource_links=False,
        structured=False,
        elicitation=False,
        absent=_AFTER_2025_03,
    ),
    Revision("2025-06-18", argument_errors=True, absent=_AFTER_2025_06),
    Revision("2025-11-25", priming=True),
    Revision("2026-07-28", modern=True, any_structure=True, absent=frozenset({"execution"}), not_found=-32602),
)

REVISIONS = {row.name: row for row in _ROWS}
LEGACY = tuple(row.name for row in _ROWS if not row.modern)
MODERN = tuple(row.name for row in _ROWS if row.modern)
NEWEST_LEGACY = REVISIONS[LEGACY[-1]]
ASSUMED = REVISIONS["2025-03-26"]
"""The revision of a request without a session and without a version header, as the specification requires."""


def negotiated(requested: str) -> Revision:
    """Return the revision for an `initialize`: the requested one, else the newest revision with a handshake."""
    row = REVISIONS.get(requested)
    return row if row is not None and not row.modern else NEWEST_LEGACY
