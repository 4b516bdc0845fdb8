"""The commands `patchbay list` and `patchbay show`: the servers of a hub, and one of them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import click

from patchbay.catalogue.search.tool_search import first_sentence
from patchbay.catalogue.servers.rows import BOOT
from patchbay.cli.completion.values import complete_server
from patchbay.cli.options import with_hub
from patchbay.cli.running_hub import RunningHub, find_running_hub, load_hub_settings
from patchbay.cli.server_directory import list_servers, list_unserved, read_server
from patchbay.cli.terminal.failures import exit_on_error
from patchbay.cli.terminal.messages import format_rows, make_printable, quote_word, write_note
from patchbay.client.addresses.targets import Local
from patchbay.exit_codes import with_examples
from patchbay.web.rendering.templates import describe_origin

MAX_PROBLEM_CHARACTERS = 100
"""Characters of a problem in the table; `patchbay show` has the whole sentence."""

MAX_SUMMARY_CHARACTERS = 160
"""Characters of the summary of a tool."""


@click.command("list", epilog=with_examples("patchbay list", "patchbay list --json"))
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array instead of a table.")
@with_hub
@click.pass_context
def list_command(context: click.Context, /, as_json: bool, **_: Any) -> None:
    """List the servers, with their states and problems.

    The state is on, off or broken; a mounted server can also be connecting or down. Without a running hub, the list
    shows what a hub would serve.
    """
    with exit_on_error():
        settings = load_hub_settings(context)
        hub = find_running_hub(settings)
        rows = [describe_row(row, hub is not None) for row in list_servers(settings, hub)]
        if as_json:
            click.echo(json.dumps(rows, indent=2, ensure_ascii=False))
            return
        cells = [tuple(_format_cell(name, row[name]) for name in COLUMNS) for row in rows]
        click.echo(make_printable(format_rows([tuple(name.upper() for name in COLUMNS), *cells])))
        for file, reason in list_unserved(settings).items():
            write_note(f"Not served: {settings.servers.name}/{file}: {reason}")
        write_note(describe_hub(hub))


def _format_cell(column: str, value: Any) -> str:
    """Return a value of the table in words."""
    if column == "problem":
        return shorten(value)
    return describe_origin(value) if column in ("kind", "origin") else str(value)


COLUMNS = ("name", "kind", "state", "tools", "origin", "problem")


def describe_row(summary: Mapping[str, Any], is_live: bool) -> dict[str, Any]:
    """Return a server as one row: the COLUMNS and its address. `is_live` says that a running hub gave the states."""
    state, problem = describe_state(summary, is_live)
    return {
        **{name: summary[name] for name in ("name", "kind", "tools", "origin", "title", "description", "endpoint")},
        "state": state,
        "problem": problem,
    }


def describe_state(summary: Mapping[str, Any], is_live: bool) -> tuple[str, str]:
    """Return the state of a server in one word, and its problem as a sentence (empty without a problem)."""
    health = summary.get("upstream")
    name = quote_word(summary["name"])
    if summary["status"] != "on":
        return summary["status"], summary["broken"] or ""
    if is_live and health is not None and health["state"] != "up":
        return health["state"], health["sentence"]
    if summary["trouble"] and health is None:
        return "on", summary["trouble"]
    if summary["changed"]:
        return "on", f"{summary['changed']} changes wait for approval: patchbay approve {name}"
    count = summary["problems"]
    noun = "problem" if count == 1 else "problems"
    return "on", f"{count} {noun}: patchbay show {name}" if count else ""


def describe_hub(hub: RunningHub | None) -> str:
    """A sentence about the hub and the next command."""
    if hub is None:
        return "No hub runs on this data folder: `patchbay serve` starts one. `patchbay show NAME` shows one server."
    return f"The hub runs at {hub.url}. `patchbay show NAME` shows one server."


def shorten(text: str) -> str:
    """The first line of a problem, shortened for a table."""
    line = text.partition("\n")[0]
    return line if len(line) <= MAX_PROBLEM_CHARACTERS else line[: MAX_PROBLEM_CHARACTERS - 3] + "..."


@click.command("show", epilog=with_examples("patchbay show echo", "patchbay show echo --json"))
@click.argument("name", shell_complete=complete_server)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object with the schemas of all tools.")
@with_hub
@click.pass_context
def show_command(context: click.Context, /, name: str, as_json: bool, **_: Any) -> None:
    """Show the server NAME: tools, problems, configuration."""
    with exit_on_error():
        settings = load_hub_settings(context)
        hub = find_running_hub(settings)
        found = read_server(settings, hub, name)
        if as_json:
            click.echo(json.dumps(found, indent=2, ensure_ascii=False))
            return
        for line in describe_server_lines(found, hub):
            click.echo(make_printable(line))


def describe_server_lines(server: Mapping[str, Any], hub: RunningHub | None) -> Iterator[str]:
    """Yield the lines of `patchbay show`."""
    # The problems have lines of their own below.
    state, problem = describe_state({**server, "problems": 0}, hub is not None)
    title = f" ({server['title']})" if server["title"] != server["name"] else ""
    yield f"{server['name']}{title}: {first_line(server['description']) or 'no description'}"
    yield f"  state    {state}"
    origin = describe_origin(server["origin"])
    yield f"  kind     {describe_origin(server['kind'])}, {origin if server['origin'] == BOOT else f'from {origin}'}"
    yield f"  address  {hub.address_of(server['endpoint']) if hub is not None else server['endpoint']}"
    yield f"  runs     {server['runs']['sentence']}"
    if callers := (server.get("upstream") or {}).get("callers"):
        yield f"  account  {callers}"
    if problem and not any(problem.startswith(each["reason"]) for each in server["problems"]):
        yield f"  problem  {problem}"
    for each in server["problems"]:
        line = f" line {each['line']}" if each["line"] else ""
        yield f"  problem  {each['where']}{line}: {each['reason']}"
        yield from (f"           {text}" for text in (each["fix"] or "").splitlines())
    yield from _describe_entries(server)
    if server["unapproved"]:
        waiting = [(entry, "changed since it was approved") for entry in server["unapproved"]]
        yield from _section(f"Waiting for approval (patchbay approve {quote_word(server['name'])})", waiting)
    if server["config"]:
        yield "Configuration"
        yield from ("  " + line for line in json.dumps(server["config"], indent=2, ensure_ascii=False).splitlines())
    yield next_step(server, state)


def _describe_entries(server: Mapping[str, Any]) -> Iterator[str]:
    """Yield the tools, resources and prompts, each with the first sentence of its description."""
    yield from _section("Tools", [(signature(tool), summarize(tool)) for tool in server["tools"]])
    readable = server["resources"] + server["templates"]
    yield from _section("Resources", [(one["uri"] or one["name"], summarize(one)) for one in readable])
    yield from _section("Prompts", [(one["name"], summarize(one)) for one in server["prompts"]])
    entries = (*server["tools"], *readable, *server["prompts"])
    if any(summarize(one) != (one["description"] or "").strip() for one in entries):
        yield f"  `patchbay inspect {quote_word(server['name'])}` prints the whole descriptions"


def summarize(entry: Mapping[str, Any]) -> str:
    """Return the first sentence of the description of a tool, resource or prompt, shortened if it is long."""
    sentence = first_sentence(entry["gist"])
    return sentence if len(sentence) <= MAX_SUMMARY_CHARACTERS else f"{sentence[: MAX_SUMMARY_CHARACTERS - 1]}…"


def first_line(text: str) -> str:
    """The first line of a description."""
    return text.strip().partition("\n")[0]


def signature(tool: Mapping[str, Any]) -> str:
    """A tool on one line: `search(query: string, limit?: integer)`. Nested properties are left out."""
    rows = [row for row in tool["rows"] if "." not in row["name"] and "[]" not in row["name"]]
    return f"{tool['name']}({', '.join(_argument(row) for row in rows)})"


def _argument(row: Mapping[str, Any]) -> str:
    return f"{row['name']}{'' if row['required'] else '?'}: {row['type']}"


def _section(title: str, rows: list[tuple[str, str]]) -> Iterator[str]:
    if rows:
        yield f"{title}" if "(" in title else f"{title} ({len(rows)})"
    for name, gist in rows:
        yield f"  {name}" + (f"  {gist}" if gist else "")


def next_step(server: Mapping[str, Any], state: str) -> str:
    """The next command for a server in this state."""
    name = quote_word(server["name"])
    if state == "off":
        return f"Next: patchbay enable {name}"
    if state in ("down", "connecting"):
        return f"Next: patchbay logs {name}, or patchbay restart {name}"
    if state == "broken":
        return "Next: fix the line above; the hub reads the file again when you save it"
    if not server["tools"]:
        return f"Next: patchbay open {name}"
    tool = server["tools"][0]
    given = "".join(f" {quote_word(row['name'])}=..." for row in tool["rows"] if row["required"])
    return f"Next: patchbay call {Local(server['name']).label} {quote_word(tool['name'])}{given}"
