"""Build a Server from definition bytes and configuration.

Rules: lists merge by name, static over transform over discovered; an entry that cannot be listed is a Problem; a server
that cannot be served has `broken_server` set; an error here never affects another server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any

from patchbay.activation import Handler, Hub
from patchbay.catalogue.building import entries
from patchbay.catalogue.building.entries import HUB_SCHEMES, EntryContext
from patchbay.catalogue.building.stored_discovery import read_definition
from patchbay.catalogue.building.transforms import HandlerFor, Transforms, matches_template
from patchbay.catalogue.reading.skills import Skill, load_skills
from patchbay.catalogue.reading.uri_templates import compile_template
from patchbay.catalogue.servers.listing import Listing
from patchbay.catalogue.servers.rows import ServerRow
from patchbay.catalogue.servers.server import Server
from patchbay.config import SOURCES, Config, Configs, lists_tools, parse_config
from patchbay.descriptors import Descriptor, Discovery, Problem
from patchbay.errors import ConfigError, ContentError, MissingBlob
from patchbay.kind import Configuration, ConfiguredServer, Examination, Kind, configured_kind
from patchbay.kinds.registry import examine_definition, handler_for
from patchbay.python_functions.script_texts import CID_PREFIX, scripts_of, with_scripts
from patchbay.shaping.own_tools import check_own_tools, shape_own_tools
from patchbay.store import Blobs
from patchbay.upstreams.connections.standing_connections import StandingConnections
from patchbay.upstreams.room_caller import RoomCaller

ENTRY_MAKERS = (
    ("tools", entries.make_tool),
    ("resources", entries.make_resource),
    ("resource_templates", entries.make_template),
    ("prompts", entries.make_prompt),
    ("events", entries.make_event),
)


Examine = Callable[[str, bytes, str, Mapping[str, Any], Discovery], Examination]
"""Says what a definition needs on this machine, from its kind, bytes, server's name, configuration and discovery."""


@dataclass(frozen=True)
class BuildContext:
    """The inputs of every build. `timeout` is the hub's default in seconds, `progress_timeout` that of calls of mounts
    with progress; `readonly` lists read-only tools only.

    `vouched` says whether an operator supplied a row, because only operators may mount servers; `connections` hold the
    connections to those, `rooms` call the tools of rooms. `read` reads a definition, `examine` says what it needs.
    `needed` says whose packages and transforms begin now.
    """

    blobs: Blobs
    configs: Configs
    timeout: float = 30.0
    readonly: bool = False
    hub: Hub | None = None
    handler_for: HandlerFor = field(default=handler_for)
    connections: StandingConnections | None = None
    vouched: Callable[[ServerRow], bool] = lambda row: False
    rooms: RoomCaller | None = None
    read: Callable[[ServerRow, bytes], Discovery] = read_definition
    examine: Examine = examine_definition
    needed: Callable[[str], bool] = lambda name: True
    progress_timeout: float = 0.0


def broken_server(row: ServerRow, version: str, sentence: str) -> Server:
    """Return a server that is not served, with the reason."""
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


def build_server(row: ServerRow, version: str, context: BuildContext, pinned: bool = False) -> Server:
    """Build the server of a row. Never raises for operator input: the result has `broken_server` set instead."""
    try:
        source = context.blobs.get(row.definition_cid)
        config = _load_config(row, source, context)
        found = context.read(row, source)
    except ContentError as problem:
        return broken_server(row, version, _describe_problem(problem, row))
    fields = config.fields if config else {}
    configured = configured_kind(fields)
    if configured is not None:
        return _build_configured(configured, row, version, fields, context, pinned)
    try:
        check_own_tools(fields, _config_place(row))
        needs = context.examine(row.kind, source, row.name, fields, found)
        runs = context.handler_for(row.kind, source, row.definition_cid, row.name, fields)
    except ConfigError as problem:
        return broken_server(row, version, _describe_problem(problem, row))
    enabled = row.is_enabled(fields)
    begins = pinned or context.needed(row.name)
    if enabled and not pinned and begins and needs.packages is not None:
        needs.packages.start()
    entry_context = _entry_context(row, fields, found)
    listed, problems = _merge_descriptors(entry_context, config if enabled and begins else None, found, context)
    runs = _shape_tools(entry_context, listed, problems, runs)
    skills, faults = load_skills(fields if enabled else {}, entry_context.where, context.blobs)
    listed["resource"] |= _skill_resources(skills, listed["resource"])
    if not (config is None or fields.get("auto_discover", False)):
        problems += _report_unlisted(entry_context, found) if enabled else ()
        found = replace(found, problems=())
    listing = Listing.of(fields.get("listing", {}))
    problems += listing.problems(listed["tool"]) if enabled else ()
    tools = {name: one for name, one in listing.select(listed["tool"]).items() if one.read_only or not context.readonly}
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
        icons=fields.get("icons"),
        tools=tools,
        resources=listed["resource"],
        templates=listed["template"],
        prompts=listed["prompt"],
        events=listed["event"],
        skills=skills,
        problems=(*needs.problems, *found.problems, *problems, *faults),
        packages=needs.packages,
        handler=runs,
        enabled=enabled,
        pinned=pinned,
        origin=row.origin,
        timeout=float(fields.get("timeout", context.timeout)),
        streams=any(one.target.get("streams") for one in tools.values()),
        listing=listing,
    )


def _entry_context(row: ServerRow, fields: Mapping[str, Any], found: Discovery) -> EntryContext:
    """Return what the entries of a configuration need to know of the definition."""
    streaming = frozenset(one.target["function"] for one in found.descriptors if one.target.get("streams"))
    known = {one.target.get("function", one.name): one.wire for one in found.descriptors if one.kind == "tool"}
    return EntryContext(row.name, row.kind, _config_place(row), fields, found.functions, streaming, known)


def _build_configured(
    configured: tuple[Kind, Configuration],
    row: ServerRow,
    version: str,
    fields: Mapping[str, Any],
    context: BuildContext,
    pinned: bool,
) -> Server:
    """Build a server that a configuration alone describes, provided that an operator supplied it."""
    if not context.vouched(row):
        name = row.name or "NAME"
        why = f"{configured[1].reaches}, which needs the operator"
        return broken_server(row, version, f"{why}: save it as servers/{name}.json, or paste it at /servers/new")
    try:
        return configured_server(row, version, fields, context, pinned)
    except ContentError as problem:
        return broken_server(row, version, _describe_problem(problem, row))


def configured_server(
    row: ServerRow, version: str, fields: Mapping[str, Any], context: BuildContext, pinned: bool = False
) -> Server:
    """Build a server that a configuration alone describes. Raises ConfigError for one that cannot be built."""
    found = configured_kind(fields)
    if found is None:
        raise ConfigError(row.origin, "kind", "expected a kind of server that a configuration alone describes")
    kind, configuration = found
    parts = configuration.make_parts(
        ConfiguredServer(row.name, fields, row.origin, context.hub, context.connections, context.rooms)
    )
    templates = dict(parts.templates)
    problems = [*parts.problems, *_remove_invalid_templates(templates)]
    listing = Listing.of_server(fields)
    enabled = row.is_enabled(fields)
    problems += listing.problems(parts.tools) if parts.tools else ()
    tools = {name: one for name, one in listing.select(parts.tools).items() if one.read_only or not context.readonly}
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
        icons=fields.get("icons") or parts.icons,
        tools=tools if enabled else {},
        resources=parts.resources if enabled else {},
        templates=templates if enabled else {},
        prompts=parts.prompts if enabled else {},
        events=parts.events if enabled else {},
        problems=tuple(problems) if enabled else (),
        handler=parts.handler,
        enabled=enabled,
        pinned=pinned,
        origin=row.origin,
        timeout=float(fields.get("timeout", context.timeout)),
        progress_timeout=_progress_timeout(fields, context) if parts.upstream is not None else 0.0,
        listing=listing,
        upstream=parts.upstream,
        api=parts.api,
        offers=parts.offers,
        via=parts.via,
        pins=parts.pins,
        audience=parts.audience,
        first_seen=parts.first_seen,
    )


def _progress_timeout(fields: Mapping[str, Any], context: BuildContext) -> float:
    """Return the limit in all of a call with progress in seconds; 0 where a mount's own `timeout` is the limit."""
    default = 0.0 if "timeout" in fields else context.progress_timeout
    return float(fields.get("progress_timeout", default))


def _remove_invalid_templates(templates: dict[str, Descriptor]) -> Iterator[Problem]:
    """Remove the templates that cannot be compiled, and report each."""
    for key in list(templates):
        try:
            compile_template(key)
        except ConfigError as problem:
            del templates[key]
            yield Problem(key, f"not served: {problem.expected}")


def _load_config(row: ServerRow, source: bytes, context: BuildContext) -> Config | None:
    """Return the configuration of a row, with the texts of its scripts; None without one. Raises ContentError."""
    if row.is_configuration:
        found = Config(row.definition_cid, parse_config(source, row.origin))
    elif row.config_cid:
        found = context.configs.config(row.config_cid)
    else:
        return None
    named = {name: one for name, one in scripts_of(found.fields).items() if one.startswith(CID_PREFIX)}
    return replace(found, fields=with_scripts(found.fields, _read_scripts(named, context.blobs))) if named else found


def _read_scripts(named: Mapping[str, str], blobs: Blobs) -> dict[str, str]:
    """Return the texts of scripts that a configuration names by their CIDs; one that is not there stays as it is."""
    found = {}
    for name, script in named.items():
        with suppress(ContentError, UnicodeDecodeError):
            found[name] = blobs.get(script.removeprefix(CID_PREFIX)).decode()
    return found


def _report_unlisted(entry_context: EntryContext, found: Discovery) -> Iterator[Problem]:
    """Report functions that are not listed because the configuration does not list them."""
    count = sum(one.kind == "tool" for one in found.descriptors)
    if count and not lists_tools(entry_context.config):
        functions = "1 function" if count == 1 else f"{count} functions"
        yield Problem(entry_context.where, f"{functions} found and not listed: auto_discover is not true")


def _skill_resources(skills: Mapping[str, Skill], known: Mapping[str, Descriptor]) -> dict[str, Descriptor]:
    """Return the SKILL.md of each skill as a resource, unless another resource has its URI."""
    return {one.uri: one.files[one.uri].resource for one in skills.values() if one.uri not in known}


def _merge_descriptors(
    entry_context: EntryContext, config: Config | None, found: Discovery, context: BuildContext
) -> tuple[dict[str, dict[str, Descriptor]], list[Problem]]:
    """Return descriptors by kind and name, and the problems of entries that are left out."""
    static, problems = _static_descriptors(entry_context)
    transforms = Transforms(entry_context, context.handler_for, context.hub)
    given = transforms.run(config.transforms) if config else []
    auto = not entry_context.config or entry_context.config.get("auto_discover", False)
    # The author lists event types by name, so that they need no `auto_discover`.
    chosen = [one for one in found.descriptors if auto or one.kind == "event"]
    discovered = [_with_annotations(one, entry_context.config) for one in chosen]
    merged: dict[str, dict[str, Descriptor]] = {"tool": {}, "resource": {}, "template": {}, "prompt": {}, "event": {}}
    for one in (*static, *given, *discovered):
        merged[one.kind].setdefault(one.name, one)
    return merged, [*problems, *transforms.problems]


def _shape_tools(
    entry_context: EntryContext, listed: dict[str, dict[str, Descriptor]], problems: list[Problem], runs: Handler | None
) -> Handler | None:
    """Make the listed tools what the configuration shows of them; return the handler of their calls.

    Adds the problems of tools, and of resources that show their output.
    """
    fields = entry_context.config
    described = {key: one for key, one in fields.get("tools", {}).items() if key in listed["tool"]}
    if described and runs is not None:
        own = shape_own_tools(entry_context.server, {**fields, "tools": described}, listed["tool"], runs)
        listed["tool"], runs = own.tools, own.handler
        problems += own.problems
    problems += _set_default_sources(entry_context, listed)
    problems += _report_missing_tools(listed)
    return runs


def _set_default_sources(entry_context: EntryContext, merged: dict[str, dict[str, Descriptor]]) -> Iterator[Problem]:
    """Give each resource without a source the last output of the only tool; without an only tool remove it."""
    for uri, one in list(merged["resource"].items()):
        if one.target or uri.startswith(HUB_SCHEMES) or matches_template(entry_context, uri):
            continue
        if len(merged["tool"]) == 1:
            target = {"last_output_of": next(iter(merged["tool"]))}
            merged["resource"][uri] = replace(one, target=target)
        else:
            del merged["resource"][uri]
            wanted = (
                f"expected one of {', '.join(SOURCES)}: the last output is the default only for a server with one tool"
            )
            yield Problem(uri, f"{uri} does not say where its content comes from; {wanted}")


def _static_descriptors(entry_context: EntryContext) -> tuple[list[Descriptor], list[Problem]]:
    listed: list[Descriptor] = []
    problems: list[Problem] = []
    for kind, make in ENTRY_MAKERS:
        for name, entry in entry_context.config.get(kind, {}).items():
            try:
                listed.append(make(entry_context, name, entry, "static"))
            except ConfigError as problem:
                problems.append(Problem(problem.path, problem.message))
    return listed, problems


def _with_annotations(one: Descriptor, config: Mapping[str, Any]) -> Descriptor:
    wire = entries.with_annotations(one.wire, config) if one.kind == "tool" else one.wire
    return one if wire is one.wire else replace(one, wire=wire)


def _report_missing_tools(merged: Mapping[str, Mapping[str, Descriptor]]) -> Iterable[Problem]:
    for uri, one in merged["resource"].items():
        wanted = one.target.get("last_output_of")
        if wanted and wanted not in merged["tool"]:
            yield Problem(uri, f"{uri} shows the last output of {wanted}, but there is no tool of this name")


def _config_place(row: ServerRow) -> str:
    """Return the name of a server's configuration for messages."""
    if row.is_configuration:
        return row.origin
    if row.origin.startswith("servers/"):
        return str(PurePosixPath(row.origin).with_suffix(".mcp.json"))
    return f"configuration of {row.name}"


def _describe_problem(problem: ContentError, row: ServerRow) -> str:
    """Return a problem as a sentence that names a file or a part of the server instead of a CID."""
    if isinstance(problem, ConfigError) and problem.where == row.config_cid:
        return ConfigError(_config_place(row), problem.path, problem.expected).message
    if isinstance(problem, MissingBlob) and row.config_cid in problem.cids:
        return f"its configuration is {problem.message}"
    return problem.message
