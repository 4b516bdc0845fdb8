"""References to variables in the values of an entry, from the syntax of an application to that of the hub.

The hub replaces `${NAME}` and `${NAME:-text}` by variables of its own environment when it connects.

    syntax     applications             forms
    literal    Claude Desktop, Zed      none: a dollar sign is a dollar sign
    shell      Claude Code, Kiro,       ${NAME}, ${NAME:-text}, ${env:NAME}
               Continue (JSON)
    dollar     Gemini CLI, Goose,       $NAME, ${NAME}, ${NAME:-text}, ${env:NAME}
               Copilot CLI
    editor     VS Code, Cursor,         ${env:NAME}, ${input:id}, ${userHome}, ${workspaceFolder}, ${pathSeparator}
               Windsurf
    named      Cline                    ${env:NAME}
    braces     opencode                 {env:NAME}; {file:PATH} is a file that the client reads
    secrets    Continue (YAML)          ${{ secrets.NAME }}, ${{ inputs.NAME }}
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from patchbay.client.addresses.launchers import check_url
from patchbay.client.addresses.targets import AddressError

Syntax = Literal["literal", "shell", "dollar", "editor", "named", "braces", "secrets"]

_HUB = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*(:-[^}]*)?\}")
_BARE = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]*)")
_BRACED = re.compile(r"\$\{([^}]*)\}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NAMED = re.compile(r"\$\{env:\s*([A-Za-z_][A-Za-z0-9_]*)\s*\}")
_BRACES = re.compile(r"\{(env|file):([^}]*)\}")
_SECRETS = re.compile(r"\$\{\{\s*(?:secrets|inputs)\.([A-Za-z_][A-Za-z0-9_]*)\s*\}\}")
_OF_CLAUDE_CODE = re.compile(r"\$\{CLAUDE_(PROJECT_DIR|PLUGIN_ROOT)(:-[^}]*)?\}")


class Inexpressible(ValueError):
    """An entry that the hub cannot mount: a sentence with the reason."""


def variable_name(text: str) -> str:
    """Return a name for a variable from any text: `api-key` becomes `API_KEY`."""
    found = re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_").upper() or "VALUE"
    return f"_{found}" if found[0].isdigit() else found


@dataclass(frozen=True, slots=True)
class References:
    """How references read in one file. `project` is the folder of a project's file, None for the user's own file."""

    syntax: Syntax
    home: Path
    project: Path | None = None

    def variable(self, name: Any) -> str:
        """Return the hub's reference to a variable that the application names."""
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise Inexpressible(f"expected the name of an environment variable, got {name!r}")
        return f"${{{name}}}"

    def folder(self, cwd: str | None) -> str | None:
        """Return the working folder of a program; programs of a project start in the project."""
        if self.project is None or (cwd is not None and cwd.startswith("$")):
            return cwd
        return str(self.project / cwd) if cwd else str(self.project)

    def url(self, url: Any) -> str:
        """Return a URL. Raises Inexpressible for one that depends on a variable, or that is not an http(s) URL."""
        if not isinstance(url, str):
            raise Inexpressible("expected the URL as a string")
        url = self.translate(url, "the URL")
        if "${" in url:
            raise Inexpressible("its URL depends on a variable; mount it with the whole URL by `patchbay mount`")
        if not url.lower().startswith(("http://", "https://")):
            raise Inexpressible(f"expected an http or https URL, got {url[:60]}")
        try:
            return check_url(url, "the URL")
        except AddressError as problem:
            raise Inexpressible(problem.message) from problem

    def translate(self, text: str, where: str) -> str:
        """Return a value with the references of the hub. Raises Inexpressible for one that only the client knows."""
        match self.syntax:
            case "literal":
                return _without_reference(text, where)
            case "editor":
                return _BRACED.sub(lambda found: self._editor(found[1], where), text)
            case "named":
                return _replace(_NAMED, text, where)
            case "secrets":
                return _replace(_SECRETS, text, where)
            case "braces":
                return self._braces(text, where)
            case "dollar":
                text = _BARE.sub(r"${\1}", text)
        text = _OF_CLAUDE_CODE.sub(lambda found: self._project_folder(found[0], where), _NAMED.sub(r"${\1}", text))
        for found in _BRACED.finditer(text):
            if not _HUB.fullmatch(found[0]):
                raise Inexpressible(f"{where}: the hub cannot resolve {found[0]}")
        return text

    def _project_folder(self, reference: str, where: str) -> str:
        """Return the folder for which Claude Code sets the variable of a reference."""
        if self.project is None or "PROJECT_DIR" not in reference:
            raise Inexpressible(f"{where}: only Claude Code can resolve {reference}")
        return str(self.project)

    def _braces(self, text: str, where: str) -> str:
        _without_reference(text, where)
        for kind, name in _BRACES.findall(text):
            if kind == "file" or not _NAME.fullmatch(name):
                raise Inexpressible(f"{where}: only the client can resolve {{{kind}:{name}}}: write a variable instead")
        return _BRACES.sub(r"${\2}", text)

    def _editor(self, inside: str, where: str) -> str:
        kind, _colon, name = inside.partition(":")
        if kind == "env" and _NAME.fullmatch(name):
            return f"${{{name}}}"
        if kind == "input" and name:
            return f"${{{variable_name(name)}}}"
        fixed = {"userHome": str(self.home), "pathSeparator": "/", "/": "/"}
        if self.project is not None:
            fixed |= {"workspaceFolder": str(self.project), "workspaceFolderBasename": self.project.name}
        if inside not in fixed:
            raise Inexpressible(f"{where}: only the client can resolve ${{{inside}}}")
        return fixed[inside]


def _without_reference(text: str, where: str) -> str:
    """Return a text that has no reference of the hub. Raises Inexpressible."""
    if "${" in text:
        raise Inexpressible(f"{where}: it contains ${{, which is text there and a reference in the hub")
    return text


def _replace(form: re.Pattern[str], text: str, where: str) -> str:
    """Return a text in which references of one form are those of the hub. Raises Inexpressible for another `${`."""
    _without_reference(form.sub("", text), where)
    return form.sub(r"${\1}", text)
