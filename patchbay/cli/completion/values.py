"""Shell completion: servers of the hub, addresses, profiles, tools, arguments and the values that they may have.

Completion reads the profile directories and asks the hub (`hub_values.py`, imported when it is used); it starts no
mounted server. `patchbay completion bash` prints the script of a shell for the programs `patchbay` and `jn`
(`scripts.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from patchbay.cli.completion.scripts import SHELLS, make_script, register
from patchbay.client.addresses.launchers import PROGRAMS
from patchbay.client.addresses.variables import ProfileError
from patchbay.client.profiles.files import PROFILE_NAME
from patchbay.client.profiles.lookup import Profiles, find_homes
from patchbay.exit_codes import with_examples
from patchbay.settings import whole_environment

LOCAL = re.compile(r"/mcp/([^/?#]+)")
"""The address of one server of the hub."""

_BARE = re.compile(r"(?![./~@-])([A-Za-z0-9_.-]+)(?=$|[/?])")
"""A name at the beginning of an address that may be the one of a server."""


def _profiles() -> Profiles:
    return Profiles(find_homes(Path.cwd(), whole_environment()))


def complete_address(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete an address; without a match complete a file name."""
    name, slash, _ = incomplete.partition("/")
    if incomplete.startswith("@") and slash:
        found = [f"{name}/{tool}" for tool in _load_profile_tools(name)]
    elif incomplete.startswith("/") and (local := LOCAL.match(incomplete)) and "/" in incomplete[5:]:
        found = [f"/mcp/{local[1]}/{tool}" for tool in _hub().find_entries(context, local[1], "tools")]
    elif "/mcp/".startswith(incomplete[:5]) and incomplete:
        found = [f"/mcp/{one}" for one in _hub().find_server_names(context)]
    elif slash and (named := _find_server(context, incomplete)) is not None:
        found = [f"{named[0]}/{tool}" for tool in _hub().find_entries(context, named[0], "tools")]
    else:
        names = list(_profiles().find_directories())
        servers = [] if incomplete.startswith("@") else _hub().find_server_names(context)
        found = [*dict.fromkeys([*servers, *names]), *(f"@{one}" for one in names)]
        found += [f"mcp+{launcher}:{'' if launcher == 'stdio' else '//'}" for launcher in PROGRAMS]
    items = _fitting(found, incomplete) if incomplete else []
    return items or [CompletionItem(incomplete, type="file")]


def _find_server(context: click.Context, address: str) -> tuple[str, str] | None:
    """Return the server of the hub at an address and what follows its name; None for another address."""
    local = LOCAL.match(address)
    if local is not None:
        return local[1], address[local.end() :]
    bare = _BARE.match(address)
    if bare is None or bare[1] not in _hub().find_server_names(context):
        return None
    return bare[1], address[bare.end() :]


def complete_server(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the name of a server of the hub."""
    return _fitting(_hub().find_server_names(context), incomplete)


def complete_removed(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the name of a removed server."""
    return _fitting(_hub().find_removed_names(context), incomplete)


def complete_version(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the number of a version of the server that the command names."""
    return _fitting(_hub().find_version_numbers(context, context.params.get("name") or ""), incomplete)


def complete_key(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the name of a personal key that is not revoked."""
    return _fitting(_hub().find_key_names(context), incomplete)


def complete_person(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the name of an account."""
    return _fitting(_hub().find_people(context), incomplete)


def complete_invited(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete an e-mail address or subject that is invited to a sign-in."""
    return _fitting(_hub().find_invited(context), incomplete)


def complete_approval(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the id of a call that waits for an approval."""
    return _fitting(_hub().find_waiting_approvals(context), incomplete)


def complete_room(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the name of a room of the running hub."""
    return _fitting(_hub().find_room_names(context), incomplete)


def complete_tool(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the name of a tool of the server that the command names."""
    return _fitting(_hub().find_entries(context, context.params.get("server") or "", "tools"), incomplete)


def complete_chosen_tool(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the name of a tool of the toolset that the command names."""
    return _fitting(_hub().find_entries(context, context.params.get("name") or "", "tools"), incomplete)


def complete_origin(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete a tool for a toolset: first the name of its server, then `server.tool` or `server/tool`."""
    for sign in "/.":
        server, found, _ = incomplete.partition(sign)
        if found:
            tools = _hub().find_entries(context, server, "tools")
            return _fitting([f"{server}{sign}{one}" for one in tools], incomplete)
    return _fitting([f"{one}/" for one in _hub().find_server_names(context)], incomplete)


def complete_uri(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the URI of a resource of the server at the address of the command."""
    found = _find_server(context, str(context.params.get("address") or ""))
    return _fitting(_hub().find_entries(context, found[0], "resources"), incomplete) if found else []


def complete_call(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the words after an address: the tool, then arguments as NAME= and the values that they may have."""
    return _complete_words(context, incomplete, "tools")


def complete_prompt(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the words after an address: the prompt, then its arguments as NAME=."""
    return _complete_words(context, incomplete, "prompts")


def complete_schema_tool(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the name of a tool of the server or the profile at the address of the command."""
    return _complete_words(context, incomplete, "tools") if not context.params.get("tool") else []


def _complete_words(context: click.Context, incomplete: str, kind: str) -> list[CompletionItem]:
    address = str(context.params.get("address") or "")
    words = [word for word in context.params.get("words") or () if word]
    server = _find_server(context, address)
    tools: Mapping[str, Mapping[str, Any]] = {}
    if server is not None:
        named = server[1].strip("/")
        entries = [] if named or words else _hub().find_entries(context, server[0], kind)
    else:
        reference, _, named = address.partition("/")
        tools = _load_profile_tools(reference) if kind == "tools" else tools
        entries = list(tools)
    if not named and not words:
        return _fitting(entries, incomplete)
    entry = named or words[0]
    if server is not None:
        arguments = _hub().find_arguments(context, server[0], kind, entry)
    else:
        arguments = _hub().list_arguments(tools.get(entry, {}).get("inputSchema"))
    name, sign, _ = incomplete.partition("=")
    if sign:
        return _fitting([f"{name}={_mark_text(value)}" for value in arguments.get(name, ())], incomplete)
    given = {word.partition("=")[0] for word in words}
    return _fitting([f"{one}=" for one in arguments if one not in given and "=" not in one], incomplete)


def _mark_text(value: str) -> str:
    """Return a value as `call` reads it as text: `@FILE` names a file of this machine, `@@TEXT` is the text `@TEXT`."""
    return f"@{value}" if value.startswith("@") and value != "@" else value


def _load_profile_tools(reference: str) -> Mapping[str, Mapping[str, Any]]:
    """Return the tools of a profile by their names; empty for an unknown profile. `reference` may begin with @."""
    name = reference.removeprefix("@")
    try:
        return _profiles().load(name).tools if PROFILE_NAME.fullmatch(name) else {}
    except ProfileError:
        return {}


def _fitting(names: Iterable[str], incomplete: str) -> list[CompletionItem]:
    """Return the names that begin with the typed text, without those that a mounted server may have chosen as a trap:
    with control characters, which separate answers, and with a hyphen in front, which makes an option.
    """
    fitting = (one for one in names if one.startswith(incomplete) and one.isprintable())
    return [CompletionItem(one) for one in fitting if one and not one.startswith("-")]


def _hub() -> Any:
    """Return the module that asks the hub; its imports take time that other commands do not need."""
    return import_module("patchbay.cli.completion.hub_values")


def complete_profile(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete a profile reference."""
    at = "@" if incomplete.startswith("@") else ""
    return [
        CompletionItem(f"{at}{one}") for one in _profiles().find_directories() if f"{at}{one}".startswith(incomplete)
    ]


@click.command(
    "completion",
    epilog=with_examples(
        'eval "$(patchbay completion bash)"',
        'eval "$(patchbay completion zsh)"',
        "patchbay completion fish | source",
    ),
)
@click.argument("shell", type=click.Choice(list(SHELLS)))
@click.pass_context
def completion(context: click.Context, /, shell: str) -> None:
    """Print the script for completion in SHELL.

    It is for the programs `patchbay` and `jn`, and completes commands, options, servers, profiles, tools, arguments and
    the values that they may have.
    """
    click.echo(make_script(shell, context.find_root().command), nl=False)


register()
