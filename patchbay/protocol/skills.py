"""The methods of the skills extension: `skills/list`, `skills/get`, `resources/directory/read` (SEP-2640).

A server without skills does not have these methods. The client needs no declaration; only 2026-07-28 has cache hints.
Source: SEP-2640.
"""

from __future__ import annotations

from typing import Any

from patchbay.catalogue.reading.skills import Skill
from patchbay.errors import InvalidParams, MethodNotFound
from patchbay.protocol.request_context import RequestContext
from patchbay.protocol.translate import for_revision, stamped

SKILLS = "io.modelcontextprotocol/skills"
"""The extension's id."""


def list_skills(context: RequestContext) -> dict[str, Any]:
    """Answer skills/list: a page of skills with whole entries."""
    _skills(context)
    skills = context.server.listed_skills
    names, more = context.services.lists.cut("skills", list(skills), context.params)
    result: dict[str, Any] = {"skills": [skills[name].entry() for name in names], **more}
    return stamped(result, context.server, context.caller.revision, cache=True)


def get_skill(context: RequestContext) -> dict[str, Any]:
    """Answer skills/get: the entry of one skill, by the URI of its SKILL.md."""
    uri = _uri(context)
    found = next((skill for skill in _skills(context).values() if skill.uri == uri), None)
    if found is None:
        raise InvalidParams(f"there is no skill {uri} here", {"uri": uri})
    return stamped({"skill": found.entry()}, context.server, context.caller.revision, cache=True)


def read_directory(context: RequestContext) -> dict[str, Any]:
    """Answer resources/directory/read: a page of the direct entries of a directory of a skill."""
    uri = _uri(context)
    children: dict[str, dict[str, Any]] = {}
    for skill in _skills(context).values():
        children |= skill.children(uri)
    if not children:
        raise InvalidParams(f"{uri} is not a directory here", {"uri": uri})
    uris, more = context.services.lists.cut(f"directory {uri}", list(children), context.params)
    revision = context.caller.revision
    result: dict[str, Any] = {"resources": [for_revision(children[one], revision) for one in uris], **more}
    return stamped(result, context.server, revision)


def _skills(context: RequestContext) -> dict[str, Skill]:
    if not context.server.skills:
        raise MethodNotFound(f"there is no method {context.request.method!r} here: {context.server.name} has no skills")
    return dict(context.server.skills)


def _uri(context: RequestContext) -> str:
    uri = context.params.get("uri")
    if not isinstance(uri, str) or not uri:
        raise InvalidParams("params.uri has to be a string")
    return uri
