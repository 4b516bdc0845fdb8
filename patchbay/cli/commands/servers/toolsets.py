"""`patchbay toolset`: choose the tools that a model sees, rename them, fix their arguments, and see the list's price.

A running hub makes the changes; without one the command changes the servers folder and the store itself. The name `mcp`
stands for the list of all servers, /mcp.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote

import click
import orjson

from patchbay.access.decisions import rights_of
from patchbay.access.keys import PersonalKeys
from patchbay.activity.records import SEARCHED, Filter, recent
from patchbay.boot import read_variable
from patchbay.boot.grants import CALL, parse_grants
from patchbay.catalogue.operating.toolset_changes import ALL_SERVERS, ToolsetChange, Toolsets
from patchbay.cli.completion.values import complete_chosen_tool, complete_origin, complete_server
from patchbay.cli.data_store import CHANGED_BY, opened_store
from patchbay.cli.hub_elsewhere import GivenHub, HubElsewhere, find_hub_elsewhere, with_hub_elsewhere
from patchbay.cli.options import with_hub
from patchbay.cli.running_hub import RunningHub, find_running_hub, load_hub_settings
from patchbay.cli.server_directory import opened_catalogue
from patchbay.cli.terminal.failures import exit_on_error
from patchbay.cli.terminal.messages import format_rows, make_printable, quote_word, write_note
from patchbay.errors import ConfigError
from patchbay.exit_codes import GREETER, RELEASE, with_examples
from patchbay.python_functions.script_function import read_script_function
from patchbay.settings import Settings
from patchbay.store import store_exists
from patchbay.suggestions import describe_unknown_name
from patchbay.topics import ACCESS
from patchbay.web.activity.activity import parse_time

PAGE = "/toolsets"

SCRIPT_FILE = click.Path(path_type=Path, dir_okay=False)

JSON = click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")

Answer = dict[str, Any]


@click.group(
    "toolset",
    epilog=with_examples(
        "patchbay toolset new release greeter.greet",
        "patchbay toolset add release greeter",
        "patchbay toolset rename release greet hello",
        "patchbay toolset show release",
        "patchbay toolset show mcp",
        after=GREETER,
    ),
)
def toolset_group() -> None:
    """Choose the tools that a model sees.

    A toolset is a server with an address of its own, /mcp/NAME. NAME mcp is the list of all servers, /mcp.
    """


@toolset_group.command(
    "new",
    epilog=with_examples(
        "patchbay toolset new release greeter.greet",
        "patchbay toolset new mine --from-calls 7d",
        "patchbay toolset new mine --from-key laptop",
        after=GREETER,
    ),
)
@click.argument("name")
@click.argument("tools", nargs=-1, shell_complete=complete_origin)
@click.option("--title", default="", help="Its title.")
@click.option("--description", default="", help="What it is for.")
@click.option("--from-calls", "since", metavar="WHEN", help="Choose the tools that were called since then: 2h, 7d.")
@click.option("--by", "principal", metavar="PRINCIPAL", help="With --from-calls: only calls of this principal.")
@click.option("--from-key", "key", metavar="NAME", help="Choose the tools of /mcp that this key may call.")
@with_hub_elsewhere
@with_hub
@click.pass_context
def new_command(
    context: click.Context,
    /,
    name: str,
    tools: tuple[str, ...],
    title: str,
    description: str,
    since: str | None,
    principal: str | None,
    key: str | None,
    elsewhere: GivenHub,
    **_: Any,
) -> None:
    """Make the toolset NAME of TOOLS: `git.git_log`, `git/git_log`, `git.*`, or `git` for all tools of a server."""
    with exit_on_error():
        hub = find_hub_elsewhere(elsewhere)
        if principal and not since:
            raise ConfigError("--by", "", "expected --from-calls too: it says whose calls count")
        if hub is not None and (since or key):
            raise ConfigError("--at", "", "expected no --from-calls and --from-key: they read the data of the own hub")
        settings = load_hub_settings(context)
        called = tuple(find_called_tools(settings, since, principal)) if since else ()
        called += tuple(find_tools_of_key(settings, key)) if key else ()
        change = ToolsetChange("new", tools, title=title, description=description, called=called)
        _show(_apply(context, hub, name, change))
        if hub is None:
            write_note(f"Undo: patchbay remove {quote_word(name)}")


@toolset_group.command("add", epilog=with_examples("patchbay toolset add release greeter.greet", after=RELEASE))
@click.argument("name", shell_complete=complete_server)
@click.argument("tools", nargs=-1, shell_complete=complete_origin)
@click.option("--script", type=SCRIPT_FILE, help="Add a Python file with one typed function as a tool.")
@click.option(
    "--as",
    "tool",
    default="",
    metavar="NAME",
    help="With --script: the name of the tool [default that of the function].",
)
@with_hub_elsewhere
@with_hub
@click.pass_context
def add_command(
    context: click.Context,
    /,
    name: str,
    tools: tuple[str, ...],
    script: Path | None,
    tool: str,
    elsewhere: GivenHub,
    **_: Any,
) -> None:
    """Choose more TOOLS for the toolset NAME; with `mcp`, put a server that ships with the hub into its list."""
    with exit_on_error():
        hub = find_hub_elsewhere(elsewhere)
        if not tools and script is None:
            raise ConfigError("TOOLS", "", "expected at least one tool, such as git.git_log, or --script FILE")
        if tool and script is None:
            raise ConfigError("--as", "", "expected --script too: `patchbay toolset rename` renames other tools")
        found: Answer = _apply(context, hub, name, ToolsetChange("add", tools)) if tools else {}
        if script is not None:
            code, function = _read_script(script)
            found = _apply(context, hub, name, ToolsetChange("script", tool=tool or function, script=code))
        _show(found)


@toolset_group.command("remove", epilog=with_examples("patchbay toolset remove release greet", after=RELEASE))
@click.argument("name", shell_complete=complete_server)
@click.argument("tools", nargs=-1, required=True, shell_complete=complete_chosen_tool)
@with_hub_elsewhere
@with_hub
@click.pass_context
def remove_command(context: click.Context, /, name: str, tools: tuple[str, ...], elsewhere: GivenHub, **_: Any) -> None:
    """Take TOOLS out of the toolset NAME: by their names there, or as `git.git_log`, `git.*`."""
    with exit_on_error():
        _show(_apply(context, find_hub_elsewhere(elsewhere), name, ToolsetChange("remove", tools)))


@toolset_group.command("rename", epilog=with_examples("patchbay toolset rename release greet hello", after=RELEASE))
@click.argument("name", shell_complete=complete_server)
@click.argument("tool", shell_complete=complete_chosen_tool)
@click.argument("new_name")
@with_hub_elsewhere
@with_hub
@click.pass_context
def rename_command(
    context: click.Context, /, name: str, tool: str, new_name: str, elsewhere: GivenHub, **_: Any
) -> None:
    """Call the tool TOOL of the toolset NAME by NEW_NAME."""
    with exit_on_error():
        change = ToolsetChange("shape", tool=tool, shape={"new_name": new_name})
        _show(_apply(context, find_hub_elsewhere(elsewhere), name, change))


@toolset_group.command(
    "set", epilog=with_examples("patchbay toolset set release greet --fix loudly=true --title Hello", after=RELEASE)
)
@click.argument("name", shell_complete=complete_server)
@click.argument("tool", shell_complete=complete_chosen_tool)
@click.option("--title", help='Its title; "" is that of the origin.')
@click.option("--description", help='Its description; "" is that of the origin.')
@click.option("--fix", "fixed", multiple=True, metavar="ARGUMENT=VALUE", help="Fix an argument. Repeatable.")
@click.option("--default", "defaults", multiple=True, metavar="ARGUMENT=VALUE", help="Give a default. Repeatable.")
@click.option("--free", multiple=True, metavar="ARGUMENT", help="Leave an argument as it is at the origin. Repeatable.")
@click.option("--script", type=SCRIPT_FILE, help="Give a tool that is a script this one.")
@with_hub_elsewhere
@with_hub
@click.pass_context
def set_command(
    context: click.Context,
    /,
    name: str,
    tool: str,
    title: str | None,
    description: str | None,
    fixed: tuple[str, ...],
    defaults: tuple[str, ...],
    free: tuple[str, ...],
    script: Path | None,
    elsewhere: GivenHub,
    **_: Any,
) -> None:
    """Change what the tool TOOL of the toolset NAME shows, and fix its arguments. A VALUE is JSON, or a text."""
    with exit_on_error():
        arguments: dict[str, Any] = dict.fromkeys(free)
        arguments |= {key: {"value": value} for key, value in map(_parse_value, fixed)}
        arguments |= {key: {"default": value} for key, value in map(_parse_value, defaults)}
        shape = {"title": title, "description": description, "arguments": arguments or None}
        shape |= {"script": _read_script(script)[0] if script is not None else None}
        change = ToolsetChange("shape", tool=tool, shape={key: one for key, one in shape.items() if one is not None})
        _show(_apply(context, find_hub_elsewhere(elsewhere), name, change))


@toolset_group.command(
    "show", epilog=with_examples("patchbay toolset show release", "patchbay toolset show mcp", after=RELEASE)
)
@click.argument("name", shell_complete=complete_server)
@JSON
@click.option("--definition", "as_definition", is_flag=True, help="Print its configuration, for `toolset put`.")
@with_hub_elsewhere
@with_hub
@click.pass_context
def show_command(
    context: click.Context, /, name: str, as_json: bool, as_definition: bool, elsewhere: GivenHub, **_: Any
) -> None:
    """Show the tools of a toolset, of any server, or of `mcp`, with the bytes and tokens of each and of the list."""
    with exit_on_error():
        found = _describe(context, find_hub_elsewhere(elsewhere), name)
        if as_definition:
            if "definition" not in found:
                raise ConfigError(
                    name, "", "expected a toolset with a configuration of its own: --definition prints it"
                )
            click.echo(json.dumps(found["definition"], indent=2, ensure_ascii=False))
            return
        _show(found, as_json)


@toolset_group.command(
    "put",
    epilog=with_examples(
        "patchbay toolset show release --definition > release.json",
        "patchbay toolset put release release.json",
        after=RELEASE,
    ),
)
@click.argument("name", shell_complete=complete_server)
@click.argument("file", type=click.File("rb"))
@click.option("--base", default="", metavar="CID", help="Refuse it unless `toolset show --json` still has this cid.")
@with_hub_elsewhere
@with_hub
@click.pass_context
def put_command(
    context: click.Context, /, name: str, file: IO[bytes], base: str, elsewhere: GivenHub, **_: Any
) -> None:
    """Make FILE the whole configuration of the toolset NAME, which may be a new one; FILE - is standard input."""
    with exit_on_error():
        try:
            fields = orjson.loads(file.read())
        except orjson.JSONDecodeError as problem:
            raise ConfigError(file.name, "", f"expected the JSON of a toolset: {problem}") from problem
        if not isinstance(fields, dict):
            raise ConfigError(file.name, "", "expected the JSON object of a toolset")
        _show(_apply(context, find_hub_elsewhere(elsewhere), name, ToolsetChange("put", fields=fields, base=base)))


@toolset_group.command("list", epilog=with_examples("patchbay toolset list"))
@JSON
@with_hub_elsewhere
@with_hub
@click.pass_context
def list_command(context: click.Context, /, as_json: bool, elsewhere: GivenHub, **_: Any) -> None:
    """List the toolsets, and the list of all servers, each with its price."""
    with exit_on_error():
        hub = find_hub_elsewhere(elsewhere) or find_running_hub(load_hub_settings(context))
        if hub is not None:
            found = hub.get(f"{PAGE}.json")["toolsets"]
        else:
            with _opened(load_hub_settings(context)) as toolsets:
                found = toolsets.list_all()
        if as_json:
            click.echo(json.dumps(found, indent=2, ensure_ascii=False))
            return
        rows = [(one["name"], one["endpoint"], one["broken"] or one["price"]) for one in found]
        click.echo(make_printable(format_rows([("NAME", "ADDRESS", "PRICE"), *rows])))


def find_called_tools(settings: Settings, since: str, principal: str | None) -> list[str]:
    """Return the tools that were called since a time, as `server.tool`, those with the most calls first.

    Raises ConfigError when no call was made since then.
    """
    if settings.store == "memory" or not store_exists(settings.store, settings.data):
        raise ConfigError("--from-calls", "", f"expected the data folder of a hub; no hub has used {settings.data}")
    counts: dict[str, int] = {}
    callers: set[str] = set()
    wanted = Filter(since=parse_time("--from-calls", since, time.time()))
    with opened_store(settings) as store:
        before: str | None = None
        while True:
            page = recent(store.journal, wanted, SEARCHED, before, contents=False)
            for record in page.records:
                callers.add(record.principal)
                if record.method == "tools/call" and record.name and principal in (None, record.principal):
                    tool = f"{record.server}.{record.name}"
                    counts[tool] = counts.get(tool, 0) + 1
            before = page.next
            if before is None:
                break
    if not counts:
        who = f" of {principal}; the callers are {', '.join(sorted(callers)[:10])}" if principal and callers else ""
        raise ConfigError("--from-calls", "", f"no call of a tool is recorded since {since}{who}")
    return sorted(counts, key=lambda tool: (-counts[tool], tool))


def find_tools_of_key(settings: Settings, name: str) -> list[str]:
    """Return the tools in the list of all servers that a key may call, as `server.tool`.

    Those of other toolsets are left out: they are there already, by their origins.

    Raises ConfigError for an unknown key, with the nearest names, and for one that may call none.
    """
    if settings.store == "memory" or not store_exists(settings.store, settings.data):
        raise ConfigError("--from-key", "", f"expected the data folder of a hub; no hub has used {settings.data}")
    with opened_store(settings) as store:
        keys = {one.name: one for one in PersonalKeys(store).all()}
        if name not in keys:
            raise ConfigError("--from-key", "", describe_unknown_name(name, list(keys), "key"))
        grants = parse_grants(read_variable(store, "access"), ACCESS)
    rights = rights_of(keys[name].principal, grants)
    hub = find_running_hub(settings)
    if hub is not None:
        whole, lists = hub.get(f"{PAGE}/{ALL_SERVERS}.json"), hub.get(f"{PAGE}.json")["toolsets"]
    else:
        with _opened(settings) as toolsets:
            whole, lists = toolsets.describe(ALL_SERVERS), toolsets.list_all()
    made = {one["name"] for one in lists}
    found = [
        one["from"]
        for one in whole["tools"]
        if one["server"] not in made and rights.allows(CALL, one["server"], one["tool"])
    ]
    if not found:
        raise ConfigError("--from-key", "", f"the key {name} may call no tool of the list at /mcp")
    return found


def _describe(context: click.Context, elsewhere: HubElsewhere | None, name: str) -> Answer:
    """Return what a toolset has, with its configuration and its versions where it is one."""
    path = f"{PAGE}/{quote(name, safe='')}.json"
    if elsewhere is not None:
        return dict(elsewhere.get(path))
    settings = load_hub_settings(context)
    hub = find_running_hub(settings)
    found: Answer | None = hub.get(path) if hub is not None else None
    if found is None:
        with _opened(settings) as toolsets:
            found = {**toolsets.describe(name), **toolsets.versions(name)}
    return found


def _apply(context: click.Context, elsewhere: HubElsewhere | None, name: str, change: ToolsetChange) -> Answer:
    """Make a change in a hub elsewhere or the running one, else in the folders of the own hub; return what is then."""
    hub: HubElsewhere | RunningHub | None = elsewhere
    if hub is None:
        settings = load_hub_settings(context)
        hub = find_running_hub(settings)
        if hub is None:
            with _opened(settings, is_change=True) as toolsets:
                return toolsets.apply(name, change, CHANGED_BY)
    fields = {"do": change.do, "entries": "\n".join(change.entries), "tool": change.tool, "script": change.script}
    fields["called"] = "\n".join(change.called)
    fields |= {"shape": orjson.dumps(change.shape).decode(), "title": change.title, "description": change.description}
    fields["base"] = change.base
    if change.fields:
        fields["fields"] = json.dumps(change.fields, ensure_ascii=False)
    found: Answer = hub.post(f"{PAGE}/{quote(name, safe='')}", fields)
    return found


@contextmanager
def _opened(settings: Settings, is_change: bool = False) -> Iterator[Toolsets]:
    """Open the toolsets in the folders of a hub that does not run."""
    with opened_catalogue(settings, is_change=is_change) as catalogue:

        def refresh() -> None:
            catalogue.read_folder()
            catalogue.refresh()

        yield Toolsets(catalogue, settings.servers, refresh)


def _show(found: Mapping[str, Any], as_json: bool = False) -> None:
    """Print a toolset: its address, its tools with the price of each, the price of all, and its problems."""
    if as_json:
        click.echo(json.dumps(found, indent=2, ensure_ascii=False))
        return
    click.echo(make_printable("\n".join(_format(found))))


def _format(found: Mapping[str, Any]) -> Iterator[str]:
    yield f"{found['endpoint']}: {found['broken'] or found['price']}"
    if found["tools"]:
        rows = [(one["name"], one["from"], f"{one['bytes']:,}", f"{one['tokens']:,}") for one in found["tools"]]
        yield format_rows([("TOOL", "FROM", "BYTES", "TOKENS"), *rows]).rstrip("\n")
    if found["unlisted"]:
        first = found["unlisted"][0]
        yield f"Not in this list, because they ship with the hub: {', '.join(found['unlisted'])}"
        yield f"`patchbay toolset add {ALL_SERVERS} {first}` puts {first} into it."
    yield from (f"Problem: {one}" for one in found["problems"])


def _read_script(file: Path) -> tuple[str, str]:
    """Return the text of a script and the name of its function. Raises ConfigError with the line."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise ConfigError(str(file), "", f"expected a Python file that can be read: {problem}") from problem
    return text, read_script_function(text, file.name).name


def _parse_value(text: str) -> tuple[str, Any]:
    """Return the argument and the value of ARGUMENT=VALUE: JSON, else the text. Raises ConfigError."""
    name, sign, value = text.partition("=")
    if not name or not sign:
        raise ConfigError("--fix", "", f"expected ARGUMENT=VALUE; got {text!r:.80}")
    try:
        return name, orjson.loads(value)
    except orjson.JSONDecodeError:
        return name, value
