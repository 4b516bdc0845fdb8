"""The resources, templates, skills and prompts of a toolset: those of its origins that its patterns choose.

A resource keeps its URI. Where several servers have one, the rules of the catalogue decide (first sight, servers of the
hub before mounted ones, schemes of the hub), so that no server takes the URI of another. A prompt keeps its name; where
two have one name, each is called `server__prompt`. An app (`ui://`) is the exception: it has the public URI that names
its server, as at `/mcp`, and is there with each tool that shows its results in it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from patchbay.app_uris import APP_SCHEME, public_uri
from patchbay.descriptors import CHOSEN_TEMPLATES, EXCLUDED, EXCLUDED_TEMPLATES, Descriptor, Origin, Problem
from patchbay.kind import Composed, OriginServer
from patchbay.kinds.toolset.configuration import Toolset, excluded_patterns, is_excluded, is_uri_pattern
from patchbay.kinds.toolset.entries import ENTRY
from patchbay.kinds.toolset.selection import SEPARATOR, chooses, nearest_to_pattern
from patchbay.patterns.entries import covers, fits
from patchbay.suggestions import did_you_mean, find_similar_names

KEPT_MEMBERS = ("matches", "variable")
"""Members of a target that stay: the pattern of the URIs of a template, and the variable that a resource shows."""


class Readable(NamedTuple):
    """What a toolset gives to read, by URI, template or name, and the problems of what it does not."""

    resources: dict[str, Descriptor]
    templates: dict[str, Descriptor]
    prompts: dict[str, Descriptor]
    skills: dict[str, Any]
    problems: list[Problem]


def make_readable(composed: Composed, toolset: Toolset, apps: Iterable[tuple[str, str]] = ()) -> Readable:
    """Return the resources, templates, prompts and skills of a toolset.

    `apps` are the servers and the URIs there of the apps of its tools.
    """
    needs_right = toolset.needs_right or composed.is_past
    made = Readable({}, {}, {}, {}, [])
    if toolset.resources:
        _add_resources(made, composed, toolset, needs_right)
    for name, uri in apps:
        _add_app(made, composed.servers[name], uri, needs_right)
    if toolset.prompts:
        _add_prompts(made, composed, toolset, needs_right)
    made.problems.extend(_unmatched(composed, toolset))
    return made


def _add_resources(made: Readable, composed: Composed, toolset: Toolset, needs_right: bool) -> None:
    uris, templates = (
        {
            server.name: [
                key for key in group if not key.startswith(APP_SCHEME) and _is_chosen(composed, toolset, server, key)
            ]
            for server, group in ((one, getattr(one, kind)) for one in composed.servers.values())
        }
        for kind in ("resources", "templates")
    )
    owners = composed.find_uri_owners(uris, templates)
    for kind, chosen, owned in (("resources", uris, owners[0]), ("templates", templates, owners[1])):
        for key, name in owned.items():
            server = composed.servers[name]
            one = _entry(server, getattr(server, kind)[key], key, needs_right)
            if kind == "templates":
                one = replace(one, target={**one.target, **_limits_of_templates(toolset, server, owned)})
            getattr(made, kind)[key] = one
        for name, keys in chosen.items():
            made.problems.extend(
                Problem("resources", f"{key} of {name} is not listed: {_reason(owned.get(key))}")
                for key in keys
                if owned.get(key) != name
            )
    for server in composed.servers.values():
        for key in server.resources:
            if key.startswith(APP_SCHEME) and _is_chosen(composed, toolset, server, key):
                _add_app(made, server, key, needs_right)
        for name, skill in server.skills.items():
            if owners[0].get(skill.uri) == server.name:
                files = {
                    uri: replace(one, resource=_entry(server, one.resource, uri, needs_right))
                    for uri, one in skill.files.items()
                }
                made.skills[name] = replace(skill, files=files)


def _add_app(made: Readable, server: OriginServer, uri: str, needs_right: bool) -> None:
    public = public_uri(server.name, uri)
    made.resources[public] = _entry(server, server.resources[uri], public, needs_right)


def _reason(owner: str | None) -> str:
    return f"{owner} had it first" if owner is not None else "the hub, or another server, has this part of the scheme"


def _is_chosen(composed: Composed, toolset: Toolset, server: OriginServer, key: str) -> bool:
    return not is_excluded(toolset, server.name, key) and any(
        _covers_resource(composed, one, server.name, key) for one in toolset.resources
    )


def _limits_of_templates(toolset: Toolset, server: OriginServer, owned: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the members of the target of a template that limit the URIs which it gives."""
    excluded = {key: one for key, one in server.templates.items() if is_excluded(toolset, server.name, key)}
    limits = {
        EXCLUDED: excluded_patterns(toolset),
        EXCLUDED_TEMPLATES: [str(one.target.get("matches", key)) for key, one in excluded.items()],
    }
    chosen = [key for key, name in owned.items() if name == server.name]
    return {member: found for member, found in limits.items() if found} | {CHOSEN_TEMPLATES: chosen}


def _covers_resource(composed: Composed, pattern: str, server: str, key: str) -> bool:
    if is_uri_pattern(pattern):
        return server not in composed.named_only and fits(pattern, key)
    return chooses(composed, pattern, server, key)


def _add_prompts(made: Readable, composed: Composed, toolset: Toolset, needs_right: bool) -> None:
    found = [
        (server, one)
        for server in composed.servers.values()
        for name, one in server.prompts.items()
        if any(chooses(composed, pattern, server.name, name) for pattern in toolset.prompts)
        and not any(covers(pattern, server.name, name) for pattern in toolset.exclude)
    ]
    counts = Counter(one.name for _, one in found)
    whole = {f"{server.name}{SEPARATOR}{one.name}" for server, one in found if counts[one.name] > 1}
    taken: dict[str, list[tuple[OriginServer, Descriptor]]] = {}
    for server, one in found:
        is_long = counts[one.name] > 1 or one.name in whole
        taken.setdefault(f"{server.name}{SEPARATOR}{one.name}" if is_long else one.name, []).append((server, one))
    for name, those in taken.items():
        if len(those) > 1:
            origins = " and ".join(f"{server.name}.{one.name}" for server, one in those[:3])
            made.problems.append(Problem("prompts", f"{name} is not listed: {origins} would have this name"))
            continue
        server, one = those[0]
        made.prompts[name] = _entry(server, one, name, needs_right)


def _entry(server: OriginServer, one: Descriptor, name: str, needs_right: bool) -> Descriptor:
    """Return an entry of a toolset for one of its origin."""
    origin = Origin(server.name, one.name, server.version, one.digest, needs_right)
    target = {ENTRY: name} | {member: one.target[member] for member in KEPT_MEMBERS if member in one.target}
    member = {"prompt": "name", "resource": "uri"}.get(one.kind)
    wire = {**one.wire, member: name} if member is not None and name != one.name else one.wire
    return replace(one, name=name, wire=wire, target=target, origins=(origin, *one.origins), belongs_to=None)


def _unmatched(composed: Composed, toolset: Toolset) -> Iterator[Problem]:
    """Yield a problem for each pattern that matches nothing, with the nearest name."""
    servers = composed.servers.values()
    for number, pattern in enumerate(toolset.resources):
        keys = {server.name: [*server.resources, *server.templates] for server in servers}
        if not any(_covers_resource(composed, pattern, name, key) for name, those in keys.items() for key in those):
            if is_uri_pattern(pattern):
                nearest = _nearest_uri(pattern, [key for those in keys.values() for key in those])
            else:
                nearest = nearest_to_pattern(composed, pattern, keys)
            yield Problem(f"resources.{number}", f"{pattern} matches no resource{nearest}")
    for number, pattern in enumerate(toolset.prompts):
        names = {server.name: list(server.prompts) for server in servers}
        if not any(chooses(composed, pattern, server, one) for server, those in names.items() for one in those):
            nearest = nearest_to_pattern(composed, pattern, names)
            yield Problem(f"prompts.{number}", f"{pattern} matches no prompt{nearest}")


def _nearest_uri(pattern: str, known: Sequence[str]) -> str:
    """Return the end of a sentence that names the URIs, or the schemes, that are nearest to a pattern of URIs."""
    scheme, mark, rest = pattern.partition("://")
    schemes = dict.fromkeys(key.partition("://")[0] for key in known)
    if scheme not in schemes:
        return did_you_mean([f"{one}{mark}{rest}" for one in find_similar_names(scheme, list(schemes))])
    return did_you_mean(find_similar_names(pattern.rstrip("*?"), list(dict.fromkeys(known))))


def origins_of(made: Readable) -> Mapping[str, Descriptor]:
    """Return every entry by its name or URI."""
    return {**made.resources, **made.templates, **made.prompts}
