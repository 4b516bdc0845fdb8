"""Who sees what of a toolset: what an origin hides from a caller, the toolset hides too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from patchbay.descriptors import Descriptor
from patchbay.kind import Audience, OriginServer


class _Part(NamedTuple):
    """The audience of one origin, and the names that its entries have in the toolset."""

    audience: Audience
    names: Mapping[str, frozenset[str]]


class OriginsAudience:
    """The audience of a toolset whose origins show different entries to different callers."""

    def __init__(self, parts: Sequence[_Part]) -> None:
        self._parts = parts
        self.digest = " ".join(part.audience.digest for part in parts)
        """A text that changes when somebody may see something else."""

    @property
    def is_needed(self) -> bool:
        """Whether an origin, or another server with an audience, hides something from some caller now."""
        return any(part.audience.is_needed for part in self._parts)

    def hidden_from(self, principal: str) -> frozenset[str]:
        """Return the names of the entries that are hidden from a principal now."""
        hidden = [(part, part.audience.hidden_from(principal)) for part in self._parts]
        return frozenset(name for part, those in hidden for key in those for name in part.names.get(key, ()))

    def messages(self, principal: str | None, place: str) -> Any:
        """Raise AssertionError: a toolset has no event types."""
        raise AssertionError(f"a toolset has no events at {place}")


def audience_of(servers: Sequence[OriginServer], entries: Sequence[Descriptor]) -> Audience | None:
    """Return the audience of a toolset of these entries of these servers; None when all callers see the same."""
    parts = []
    for server in servers:
        if server.audience is None:
            continue
        names: dict[str, frozenset[str]] = {}
        for one in entries:
            if one.origins[0].server == server.name:
                key = one.origins[0].name
                names[key] = names.get(key, frozenset()) | {one.name}
        parts.append(_Part(server.audience, names))
    return OriginsAudience(parts) if parts else None
