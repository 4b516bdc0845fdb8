"""Descriptors: one tool, resource, resource template or prompt as clients see it.

`wire` is the newest revision's JSON object without nulls; `target` says how to run it and never
leaves the hub. What older revisions must not see is taken away in `protocol/translate.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import orjson

from patchbay.cid import cid_of

Kind = Literal["tool", "resource", "template", "prompt"]
Source = Literal["static", "transform", "discovered", "upstream"]

NAME = r"[A-Za-z0-9_.-]{1,128}"
"""What a server's or a tool's name may be (SPEC-DIGEST 3.2, DESIGN section 11)."""


@dataclass(frozen=True)
class Descriptor:
    """What is shown (`wire`), how it runs (`target`), where it came from (`source`).

    Targets of a tool or prompt: `{"function": name}`, `{"argv": [...]}` (shell), `{"messages": [...]}` (prompt).
    Targets of a resource: one of `text`, `blob` (base64), `cid`, `variable`, `function`, `last_output_of`.
    A template's target is `{"function": name}`, which gets the URI's variables as arguments.
    `belongs_to` is the server and the name there, where all servers are listed as one.
    """

    kind: Kind
    name: str
    wire: Mapping[str, Any]
    target: Mapping[str, Any] = field(default_factory=dict)
    source: Source = "static"
    belongs_to: tuple[str, str] | None = None

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Every name that patterns match: its own and, where all servers are listed as one, `server.tool`."""
        return (self.name, ".".join(self.belongs_to)) if self.belongs_to else (self.name,)

    @cached_property
    def digest(self) -> str:
        """The CID of what clients see, in canonical JSON: it changes when, and only when, that does."""
        return cid_of(orjson.dumps(self.wire, option=orjson.OPT_SORT_KEYS))

    @property
    def read_only(self) -> bool:
        """Whether a tool is known to change nothing. What an upstream says of its own tools is only a hint: False."""
        if self.source == "upstream":
            return False
        annotations = self.wire.get("annotations") or {}
        return bool(annotations.get("readOnlyHint", False))


@dataclass(frozen=True, slots=True)
class Problem:
    """Why something is not listed or does not work, as a sentence for the meta page.

    `where` names it: a function, a transform, a place in a configuration; `line` is its line in the definition.
    """

    where: str
    reason: str
    line: int | None = None


@dataclass(frozen=True)
class Discovery:
    """What discovery reads in a definition."""

    descriptors: tuple[Descriptor, ...] = ()
    problems: tuple[Problem, ...] = ()
    description: str = ""


def encodable(text: str) -> str:
    """Text with a question mark for each lone surrogate, which UTF-8 and so JSON cannot carry."""
    return text.encode("utf-8", "replace").decode("utf-8")
