"""From definition bytes and configuration to a Server.

Rules: lists merge by name, static over transform over discovered; what cannot be listed is a Problem,
what cannot be served at all is a Server with `broken` set; nothing raised here takes down another server.
Sources: DESIGN sections 4 and 5; REQUIREMENTS V-C2 to V-C6; T4.1 to T4.4, T1.8.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any

from patchbay.activation import Hub
from patchbay.catalogue import entries
from patchbay.catalogue.entries import HUB_SCHEMES, EntryContext
from patchbay.catalogue.listing import Listing
from patchbay.catalogue.reading.skills import Skill, skills_of
from patchbay.catalogue.reading.uri_templates import compiled
from patchbay.catalogue.rows import ServerRow
from patchbay.catalogue.servers import Server
from patchbay.catalogue.transforms import HandlerFor, Transforms, is_answered
from patchbay.config import SOURCES, Config, Configs, lists_tools, parse_config
from patchbay.descriptors import Descriptor, Discovery, Problem
from patchbay.errors import ConfigError, ContentError
from patchbay.kind import Configuration, ConfiguredServer, Kind, configured_kind, kind_named
from patchbay.kinds.discovery import discover
from patchbay.kinds.mount.standing_connections import StandingConnections
from patchbay.kinds.registry import handler_for
from patchbay.store import Blobs

STATIC = (
    ("tools", entries.tool),
    ("resources", entries.resource),
    ("resource_templates", entries.template),
    ("prompts", entries.prompt),
)


@dataclass(frozen=True)
class BuildContext:
    """What every build needs. `timeout` is the hub's own, in seconds; `readonly` keeps all but read-only tools out.

    `vouched` says whether a row came from an operator, who alone mounts servers; `keepers` reach those.
    """

    blobs: Blobs
    configs: Configs
    timeout: float = 30.0
    readonly: bool = False
    hub: Hub | None = None
    handler_for: HandlerFor = field(default=handler_for)
    keepers: StandingConnections | None = None
    vouched: Callable[[ServerRow], bool] = lambda row: False


def broken(row: ServerRow, version: str, sentence: str) -> Server:
    """A server that is served nowhere, and says why."""
    return Server(
        row.name,
        version,
        row.kind,
        definition=row.definition_cid or None,
        config_cid=row.config_cid,
        enabled=row.enabled,
        broken=sentence,
        origin=row.origin,
    )


def build(row: ServerRow, version: str, shop: BuildContext, pinned: bool = False) -> Server:
    """The server of a row. Never raises for what an operator wrote: the answer is `broken` then."""
    try:
        source = shop.blobs.get(row.definition_cid)
        config = _config(row, source, shop)
        found = discover(row.kind, row.name, source)
    except ContentError as problem:
        return broken(row, version, _told(problem, row))
    fields = config.fields if config else {}
    whole = configured_kind(fields)
    if whole is not None:
        return _configured(whole, row, version, fields, shop, pinned)
    try:
        runs = shop.handler_for(row.kind, source, row.definition_cid, row.name, fields)
    except ConfigError as problem:
        return broken(row, version, _told(problem, row))
    enabled = row.serves(fields)
    functions = kind_named(row.kind).functions(source)
    streaming = frozenset(one.target["function"] for one in found.descriptors if one.target.get("streams"))
    known = {one.target.get("function", one.name): one.wire for one in found.descriptors}
    ground = EntryContext(row.name, row.kind, _config_place(row), fields, functions, streaming, known)
    listed, problems = _listed(ground, config if enabled else None, found, shop)
    skills, faults = skills_of(fields if enabled else {}, ground.where, shop.blobs)
    listed["resource"] |= _heads(skills, listed["resource"])
    if not (config is None or fields.get("auto_discover", False)):
        problems += _unlisted(ground, found) if enabled else ()
        found = replace(found, problems=())
    listing = Listing.of(fields.get("listing", {}))
    problems += listing.problems(listed["tool"]) if enabled else ()
    tools = {name: one for name, one in listing.kept(listed["tool"]).items() if one.read_only or not shop.readonly}
    return Server(
        row.name,
        version,
        row.kind,
        definition=row.definition_cid,
        config_cid=row.config_cid,
        config=fields,
        title=fields.get("title"),
        description=fields.get("description") or found.description,
        instructions=fields.get("instructions"),
        tools=tools,
        resources=listed["resource"],
        templates=listed["template"],
        prompts=listed["prompt"],
        skills=skills,
        problems=(*found.problems, *problems, *faults),
        handler=runs,
        enabled=enabled,
        pinned=pinned,
        origin=row.origin,
        timeout=float(fields.get("timeout", shop.timeout)),
        streams=any(one.target.get("streams") for one in tools.values()),
        listing=listing,
    )


def _configured(
    whole: tuple[Kind, Configuration],
    row: ServerRow,
    version: str,
    fields: Mapping[str, Any],
    shop: BuildContext,
    pinned: bool,
) -> Server:
    """The server that a configuration alone describes, where it was an operator who brought it."""
    if not shop.vouched(row):
        return broken(row, version, f"{whole[1].reaches}, which only a file in servers/ or the boot image may do")
    try:
        return configured_server(row, version, fields, shop, pinned)
    except ContentError as problem:
        return broken(row, version, _told(problem, row))


def configured_server(
    row: ServerRow, version: str, fields: Mapping[str, Any], shop: BuildContext, pinned: bool = False
) -> Server:
    """The server that a configuration alone describes. Raises ConfigError for one that cannot be."""
    found = configured_kind(fields)
    if found is None:
        raise ConfigError(row.origin, "kind", "expected a kind of server that a configuration alone describes")
    kind, configuration = found
    parts = configuration.make_parts(ConfiguredServer(row.name, fields, row.origin, shop.hub, shop.keepers))
    templates = dict(parts.templates)
    problems = [*parts.problems, *_untemplated(templates)]
    listing = Listing.of(fields.get("listing", {}))
    enabled = row.serves(fields)
    problems += listing.problems(parts.tools) if parts.tools else ()
    tools = {name: one for name, one in listing.kept(parts.tools).items() if one.read_only or not shop.readonly}
    return Server(
        row.name,
        version,
        kind.name,
        definition=row.definition_cid,
        config_cid=row.config_cid,
        config={**fields, **parts.fields},
        title=fields.get("title") or parts.title,
        description=fields.get("description") or parts.description,
        instructions=fields.get("instructions") or parts.instructions,
        tools=tools if enabled else {},
        resources=parts.resources if enabled else {},
        templates=templates if enabled else {},
        prompts=parts.prompts if enabled else {},
        problems=tuple(problems) if enabled else (),
        handler=parts.handler,
        enabled=enabled,
        pinned=pinned,
        origin=row.origin,
        timeout=float(fields.get("timeout", shop.timeout)),
        listing=listing,
        upstream=parts.upstream,
        offers=parts.offers,
        via=parts.via,
    )


def _untemplated(templates: dict[str, Descriptor]) -> Iterator[Problem]:
    """Take out the templates whose addresses cannot be told from others, and say so."""
    for key in list(templates):
        try:
            compiled(key)
        except ConfigError as problem:
            del templates[key]
            yield Problem(key, f"not served: {problem.expected}")


def _config(row: ServerRow, source: bytes, shop: BuildContext) -> Config | None:
    """The configuration of a row, None where it has none. Raises ContentError."""
    if row.is_configuration:
        return Config(row.definition_cid, parse_config(source, row.origin))
    return shop.configs.config(row.config_cid) if row.config_cid else None


def _unlisted(ground: EntryContext, found: Discovery) -> Iterator[Problem]:
    """What an operator has to know who wrote a configuration and sees a server without tools."""
    count = len(found.descriptors)
    if count and not lists_tools(ground.config):
        functions = "1 function" if count == 1 else f"{count} functions"
        yield Problem(ground.where, f"{functions} found and not listed: auto_discover is not true")


def _heads(skills: Mapping[str, Skill], known: Mapping[str, Descriptor]) -> dict[str, Descriptor]:
    """The SKILL.md of each skill, which is listed among the resources unless another has its URI."""
    return {one.uri: one.files[one.uri].resource for one in skills.values() if one.uri not in known}


def _listed(
    ground: EntryContext, config: Config | None, found: Discovery, shop: BuildContext
) -> tuple[dict[str, dict[str, Descriptor]], list[Problem]]:
    """Descriptors by kind and name, and what kept others out."""
    static, problems = _static(ground)
    transforms = Transforms(ground, shop.handler_for, shop.hub)
    given = transforms.run(config.transforms) if config else []
    auto = not ground.config or ground.config.get("auto_discover", False)
    discovered = [_with_annotations(one, ground.config) for one in found.descriptors] if auto else []
    merged: dict[str, dict[str, Descriptor]] = {"tool": {}, "resource": {}, "template": {}, "prompt": {}}
    for one in (*static, *given, *discovered):
        merged[one.kind].setdefault(one.name, one)
    problems += transforms.problems
    problems += _sourced(ground, merged)
    return merged, [*problems, *_orphans(merged)]


def _sourced(ground: EntryContext, merged: dict[str, dict[str, Descriptor]]) -> Iterator[Problem]:
    """Give each resource that says nothing of its content the last output of the only tool; take others out."""
    for uri, one in list(merged["resource"].items()):
        if one.target or uri.startswith(HUB_SCHEMES) or is_answered(ground, uri):
            continue
        if len(merged["tool"]) == 1:
            target = {"last_output_of": next(iter(merged["tool"]))}
            merged["resource"][uri] = replace(one, target=target)
        else:
            del merged["resource"][uri]
            wanted = f"expected one of {', '.join(SOURCES)}: the last output is meant only where there is one tool"
            yield Problem(uri, f"{uri} does not say where its content comes from; {wanted}")


def _static(ground: EntryContext) -> tuple[list[Descriptor], list[Problem]]:
    listed: list[Descriptor] = []
    problems: list[Problem] = []
    for kind, make in STATIC:
        for name, entry in ground.config.get(kind, {}).items():
            try:
                listed.append(make(ground, name, entry, "static"))
            except ConfigError as problem:
                problems.append(Problem(problem.path, problem.message))
    return listed, problems


def _with_annotations(one: Descriptor, config: Mapping[str, Any]) -> Descriptor:
    wire = entries.with_annotations(one.wire, config) if one.kind == "tool" else one.wire
    return one if wire is one.wire else replace(one, wire=wire)


def _orphans(merged: Mapping[str, Mapping[str, Descriptor]]) -> Iterable[Problem]:
    for uri, one in merged["resource"].items():
        wanted = one.target.get("last_output_of")
        if wanted and wanted not in merged["tool"]:
            yield Problem(uri, f"{uri} shows the last output of {wanted}, but there is no tool of this name")


def _config_place(row: ServerRow) -> str:
    """What messages call a server's configuration."""
    if row.is_configuration:
        return row.origin
    if row.origin.startswith("servers/"):
        return str(PurePosixPath(row.origin).with_suffix(".mcp.json"))
    return f"configuration of {row.name}"


def _told(problem: ContentError, row: ServerRow) -> str:
    """A problem as a sentence that names a file or a part of the server rather than a CID."""
    if isinstance(problem, ConfigError) and problem.where == row.config_cid:
        return ConfigError(_config_place(row), problem.path, problem.expected).message
    return problem.message
