"""Shell completion: servers of the hub, addresses, profiles, tools, arguments and the values that they may have.

Completion reads the profile directories and asks the hub (hub_completion.py, imported when it is used); it starts no
mounted server. `patchbay completion bash` prints the script of a shell for the programs `patchbay` and `jn`.
Source: the GNU Bash manual, "Programmable Completion" (COMP_LINE, COMP_POINT, COMP_WORDBREAKS).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    add_completion_class,
    get_completion_class,
    split_arg_string,
)

from patchbay.client.addresses.launchers import PROGRAMS
from patchbay.client.addresses.variables import ProfileError
from patchbay.client.profiles.lookup import Profiles, find_homes
from patchbay.exit_codes import with_examples
from patchbay.settings import whole_environment

SHELLS = ("bash", "zsh", "fish")
PROGRAMS_OF_SCRIPT = ("patchbay", "jn")
LOCAL = re.compile(r"/mcp/([^/?#]+)")
"""The address of one server of the hub."""

BASH = """\
%(complete_func)s() {
    local response type value completion
    response=$(COMP_WORDS="${COMP_LINE:0:$COMP_POINT}." COMP_CWORD=-1 COMP_BREAKS="$COMP_WORDBREAKS" \\
        %(complete_var)s=bash_complete "$1" 2>/dev/null)
    while IFS= read -r completion; do
        type=${completion%%%%,*} value=${completion#*,}
        if [[ $type == 'dir' ]]; then
            COMPREPLY=()
            compopt -o dirnames
        elif [[ $type == 'file' ]]; then
            COMPREPLY=()
            compopt -o default
        elif [[ $type == 'plain' ]]; then
            COMPREPLY+=("$value")
            [[ $value == *[=/] ]] && compopt -o nospace
        fi
    done <<< "$response"
    return 0
}

complete -o nosort -F %(complete_func)s %(prog_name)s
"""
"""The script for bash, which splits words at `=` and `:`. It passes the line up to the cursor, with a dot after it that
keeps a last space. bash inserts the answers into the line as they are, so they come quoted.
"""

FISH = """\
function %(complete_func)s
    set -l response (env %(complete_var)s=fish_complete COMP_WORDS=(commandline -cp) \\
        COMP_CWORD=(commandline -t) %(prog_name)s)
    for completion in $response
        set -l metadata (string split --max 1 -- "," $completion)
        if test "$metadata[1]" = "dir"
            __fish_complete_directories $metadata[2]
        else if test "$metadata[1]" = "file"
            __fish_complete_path $metadata[2]
        else if test "$metadata[1]" = "plain"
            printf '%%s\\n' $metadata[2]
        end
    end
end

complete --no-files --command %(prog_name)s --arguments "(%(complete_func)s)"
"""
"""The script for fish, which quotes what it inserts. That of click cuts a value at its first comma."""

SPECIAL = re.compile(r"[^\w@%+=:,./-]")
"""Characters that a shell may read as syntax. `=` and `:` are not among them: bash splits words there."""


class _WholeWords(BashComplete):
    """Completion in bash of whole words such as `kind=file`; the answer leaves out what bash has as earlier words."""

    source_template = BASH
    _typed = ""

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the words before the one that is typed, and that one."""
        environment = whole_environment()
        if environment.get("COMP_CWORD") != "-1":
            return super().get_completion_args()
        line = environment.get("COMP_WORDS", "")[:-1]
        words = split_arg_string(line)[1:]
        self._typed = "" if not words or line[-1:].isspace() else words.pop()
        return words, self._typed

    def format_completion(self, item: CompletionItem[Any]) -> str:
        """Return the line for one item."""
        breaks = set(whole_environment().get("COMP_BREAKS", "")) & set("=:")
        last = max((place for place, letter in enumerate(self._typed) if letter in breaks), default=-1)
        value = str(item.value).removeprefix(self._typed[: last + 1])
        return f"{item.type},{quote_for_shell(value)}"


class _WholeValues(FishComplete):
    """Completion in fish of values with commas."""

    source_template = FISH


def quote_for_shell(word: str) -> str:
    """Return a word as bash reads it literally: a backslash stands before each character that may be syntax.

    The word also runs nothing where it is inserted after an opening quotation mark, which `printf %q` does not give:
    that writes `$'...'` for characters beyond the locale. The word has no control characters.
    """
    return SPECIAL.sub(r"\\\g<0>", word)


def _profiles() -> Profiles:
    return Profiles(find_homes(Path.cwd(), whole_environment()))


def complete_address(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete an address; without a match complete a file name."""
    name, slash, _ = incomplete.partition("/")
    if incomplete.startswith("@") and slash:
        try:
            found = [f"{name}/{tool}" for tool in _profiles().list_server_tools(name[1:])]
        except ProfileError:
            found = []
    elif incomplete.startswith("/") and (local := LOCAL.match(incomplete)) and "/" in incomplete[5:]:
        found = [f"/mcp/{local[1]}/{tool}" for tool in _hub().find_entries(context, local[1], "tools")]
    elif "/mcp/".startswith(incomplete[:5]) and incomplete:
        found = [f"/mcp/{one}" for one in _hub().find_server_names(context)]
    else:
        found = [f"@{one}" for one in _profiles().find_directories()]
        found += [f"mcp+{launcher}:{'' if launcher == 'stdio' else '//'}" for launcher in PROGRAMS]
    items = _fitting(found, incomplete) if incomplete else []
    return items or [CompletionItem(incomplete, type="file")]


def complete_server(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the name of a server of the hub."""
    return _fitting(_hub().find_server_names(context), incomplete)


def complete_removed(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the name of a removed server."""
    return _fitting(_hub().find_removed_names(context), incomplete)


def complete_version(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the number of a version of the server that the command names."""
    return _fitting(_hub().find_version_numbers(context, context.params.get("name") or ""), incomplete)


def complete_tool(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the name of a tool of the server that the command names."""
    return _fitting(_hub().find_entries(context, context.params.get("server") or "", "tools"), incomplete)


def complete_uri(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the URI of a resource of the server at the address of the command."""
    local = LOCAL.match(str(context.params.get("address") or ""))
    return _fitting(_hub().find_entries(context, local[1], "resources"), incomplete) if local else []


def complete_call(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the words after an address: the tool, then arguments as NAME= and the values that they may have."""
    return _complete_words(context, incomplete, "tools")


def complete_prompt(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the words after an address: the prompt, then its arguments as NAME=."""
    return _complete_words(context, incomplete, "prompts")


def _complete_words(context: click.Context, incomplete: str, kind: str) -> list[CompletionItem]:
    address = str(context.params.get("address") or "")
    words = [word for word in context.params.get("words") or () if word]
    local = LOCAL.match(address)
    if local is None:
        tools = _list_profile_tools(address) if kind == "tools" and not words else []
        return _fitting(tools, incomplete)
    named = address[local.end() :].strip("/")
    if not named and not words:
        return _fitting(_hub().find_entries(context, local[1], kind), incomplete)
    entry = named or words[0]
    arguments = _hub().find_arguments(context, local[1], kind, entry)
    name, sign, _ = incomplete.partition("=")
    if sign:
        return _fitting([f"{name}={value}" for value in arguments.get(name, ())], incomplete)
    given = {word.partition("=")[0] for word in words}
    return _fitting([f"{one}=" for one in arguments if one not in given], incomplete)


def _list_profile_tools(address: str) -> list[str]:
    """Return the tools of a profile; an empty list for another address."""
    try:
        return list(_profiles().list_server_tools(address[1:])) if address.startswith("@") else []
    except ProfileError:
        return []


def _fitting(names: Iterable[str], incomplete: str) -> list[CompletionItem]:
    """Return the names that begin with the typed text, without those that a mounted server may have chosen as a trap:
    with control characters, which separate answers, and with a hyphen in front, which makes an option.
    """
    fitting = (one for one in names if one.startswith(incomplete) and one.isprintable())
    return [CompletionItem(one) for one in fitting if one and not one.startswith("-")]


def _hub() -> Any:
    """Return the module that asks the hub; its imports take time that other commands do not need."""
    return import_module("patchbay.cli.hub_completion")


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
        "patchbay completion fish > ~/.config/fish/completions/patchbay.fish",
    ),
)
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(context: click.Context, /, shell: str) -> None:
    """Print the script for completion in SHELL.

    It is for the programs `patchbay` and `jn`, and completes commands, options, servers, profiles, tools, arguments and
    the values that they may have.
    """
    kind = _WholeWords if shell == "bash" else get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"expected one of {', '.join(SHELLS)}")
    for name in PROGRAMS_OF_SCRIPT:
        click.echo(kind(context.find_root().command, {}, name, f"_{name.upper()}_COMPLETE").source())


add_completion_class(_WholeWords)
add_completion_class(_WholeValues)
