"""The scripts for completion of each shell, and how each one reads the answers of the program.

bash splits words at `=` and `:`, and inserts an answer into the line as it is; zsh and fish quote what they insert.
Sources: the GNU Bash manual, "Programmable Completion" (COMP_LINE, COMP_POINT, COMP_WORDBREAKS); zshcompsys(1) and
zshcompwid(1); the fish documentation, `complete` and `commandline`.
"""

from __future__ import annotations

import re
from typing import Any

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
    add_completion_class,
    split_arg_string,
)

from patchbay.settings import whole_environment

PROGRAMS_OF_SCRIPT = ("patchbay", "jn")

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
        COMP_CWORD=(commandline -ct) %(prog_name)s)
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

ZSH = """\
%(complete_func)s() {
    local -a plain open described
    local type value help
    (( $+commands[%(prog_name)s] )) || return 1
    for type value help in "${(@f)$(env COMP_WORDS="${words[1,CURRENT]}" COMP_CWORD=$((CURRENT-1)) \\
        %(complete_var)s=zsh_complete %(prog_name)s 2>/dev/null)}"; do
        if [[ $type == dir ]]; then
            _path_files -/
        elif [[ $type == file ]]; then
            _path_files -f
        elif [[ $help != _ ]]; then
            described+=("$value:$help")
        elif [[ $value == *[=/] ]]; then
            open+=("$value")
        elif [[ -n $value ]]; then
            plain+=("$value")
        fi
    done
    (( $#described )) && _describe -V unsorted described -U
    (( $#open )) && compadd -U -S '' -V unsorted -a open
    (( $#plain )) && compadd -U -V unsorted -a plain
}

(( $+functions[compdef] )) || { autoload -Uz compinit && compinit }
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    [[ $service == %(prog_name)s ]] && %(complete_func)s "$@"
else
    compdef %(complete_func)s %(prog_name)s
fi
"""
"""The script for zsh. That of click puts a space after `NAME=`, and needs a shell that has called compinit."""

SPECIAL = re.compile(r"[^\w@%+=:,./-]")
"""Characters that a shell may read as syntax. `=` and `:` are not among them: bash splits words there."""


class _WholeWords(BashComplete):
    """Completion in bash of whole words such as `kind=file`; the answer leaves out what bash has as earlier words."""

    source_template = BASH
    _typed = ""

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the complete words, and the word that is being typed."""
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


class _OpenValues(ZshComplete):
    """Completion in zsh of words that go on after `=`."""

    source_template = ZSH


SHELLS: dict[str, type[ShellComplete]] = {"bash": _WholeWords, "zsh": _OpenValues, "fish": _WholeValues}
"""How each shell asks and is answered, by its name."""


def quote_for_shell(word: str) -> str:
    """Return a word as bash reads it literally: a backslash stands before each character that may be syntax.

    The word also runs nothing where it is inserted after an opening quotation mark, which `printf %q` does not give:
    that writes `$'...'` for characters beyond the locale. The word has no control characters.
    """
    return SPECIAL.sub(r"\\\g<0>", word)


def make_script(shell: str, command: click.Command) -> str:
    """Return the script of a shell (a name in SHELLS) that completes both programs; `command` is either of them.

    In a folder of zsh's `fpath`, the first line says which programs the file is for.
    """
    scripts = [SHELLS[shell](command, {}, name, f"_{name.upper()}_COMPLETE").source() for name in PROGRAMS_OF_SCRIPT]
    return (f"#compdef {' '.join(PROGRAMS_OF_SCRIPT)}\n\n" if shell == "zsh" else "") + "\n".join(scripts)


def register() -> None:
    """Make click answer each shell in the form that the shell's script reads."""
    for one in SHELLS.values():
        add_completion_class(one)
