"""`${VAR}` in launch data: replaced when a server is connected to, never when a file is read or written.

`${VAR}` has to be set; `${VAR:-text}` is `text` when it is unset or empty. An unset variable is an error, never an
empty string. The caller passes the environment. Server configurations use the same two forms.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from patchbay.client.addresses.targets import Http, Local, Stdio, Target
from patchbay.errors import ConfigError

_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


class ProfileError(ConfigError):
    """A profile, or an address, that cannot be used.

    The message names the file, the path inside it, and what was expected.
    """


class UnsetVariable(ProfileError):
    """A variable of the environment that launch data needs is not set; `variable` is its name."""

    def __init__(self, where: str, path: str, variable: str) -> None:
        super().__init__(where, path, f"Environment variable {variable} not set; set it before you start the program")
        self.variable = variable


def substitute_env_vars(text: str, environ: Mapping[str, str], where: str = "", path: str = "") -> str:
    """Replace the variables in a text. Raises UnsetVariable naming a variable that is not set."""

    def value(found: re.Match[str]) -> str:
        name, instead = found.groups()
        if instead is not None:
            return environ.get(name) or str(instead)
        if name not in environ:
            raise UnsetVariable(where or "the text", path, name)
        return environ[name]

    return _REFERENCE.sub(value, text)


def substitute_env_vars_recursive(value: Any, environ: Mapping[str, str], where: str = "", path: str = "") -> Any:
    """Replace the variables in the strings of objects and lists; keys and other values stay as they are."""
    if isinstance(value, str):
        return substitute_env_vars(value, environ, where, path)
    if isinstance(value, Mapping):
        inner = {key: (f"{path}.{key}" if path else str(key)) for key in value}
        return {key: substitute_env_vars_recursive(one, environ, where, inner[key]) for key, one in value.items()}
    if isinstance(value, list):
        return [substitute_env_vars_recursive(one, environ, where, f"{path}[{n}]") for n, one in enumerate(value)]
    return value


def substitute_in_target(target: Target, environ: Mapping[str, str], where: str) -> Target:
    """Replace the variables in a target's words, variables, headers, URL and sign-in. Raises ProfileError."""
    if isinstance(target, Local):
        return target
    if isinstance(target, Http):
        url = substitute_env_vars(target.url, environ, where, "url")
        headers = substitute_env_vars_recursive(target.headers, environ, where, "headers")
        sign_in = target.sign_in
        if sign_in is not None:
            sign_in = replace(sign_in, **substitute_env_vars_recursive(sign_in.to_fields(), environ, where, "sign_in"))
        return replace(target, url=url, headers=headers, sign_in=sign_in)
    args = substitute_env_vars_recursive(list(target.args), environ, where, "args")
    env = substitute_env_vars_recursive(target.env, environ, where, "env")
    cwd = None if target.cwd is None else substitute_env_vars(target.cwd, environ, where, "cwd")
    return Stdio(substitute_env_vars(target.command, environ, where, "command"), tuple(args), env, cwd)
