"""Entries of applications as mounts of the hub: the definition of each, its name, and the variables for its secrets.

A secret never stands in a definition. A value of `env`, of a header or of the command line that is likely a secret
(`is_secret`) becomes a reference `${NAME}`; `Variables` collects the names with their values. All others stay.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from patchbay.client.addresses.formatting import format_address
from patchbay.client.addresses.secrets import is_secret, is_secret_name
from patchbay.client.addresses.targets import AddressError, Http, Stdio
from patchbay.client.applications.entries import Entry
from patchbay.client.applications.references import Inexpressible, variable_name
from patchbay.client.applications.sign_ins import SignIn

CALLER = "caller"
"""The value of the field `account` of a mount where each caller signs in."""

Known = Mapping[str, bool]
"""What the user says of names of variables and headers: whether their values are secrets."""

NOTHING_KNOWN: Known = MappingProxyType({})

_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(:-[^}]*)?\}")
_SCHEME = re.compile(r"((?:Bearer|Basic|Token|ApiKey) +)(.+)", re.IGNORECASE)
_PAIR = re.compile(r"(-{0,2}[A-Za-z_][A-Za-z0-9_.-]*)=(.+)", re.DOTALL)
_HEADER = re.compile(r"([A-Za-z0-9-]+): *(?!//)(\S.*)")
_CHANGES_PROGRAMS = re.compile(
    r"PATH|HOME|USER|LOGNAME|SHELL|IFS|ENV|BASH_.*|CDPATH|GLOBIGNORE|PS[0-4]|PROMPT_COMMAND|PWD|TMPDIR|TMP|TEMP|TZ|LANG"
    r"|LANGUAGE|NETRC|EDITOR|PAGER|BROWSER|NLSPATH|(HTTPS?|ALL|NO|FTP)_PROXY|(PYTHON|PERL|RUBY).*"
    r"|(LC|LD|DYLD|XDG|SSL|GCONV|MALLOC|GIT|CURL|REQUESTS|UV|PIP|NPM|NODE|JAVA|_JAVA)_.*"
    r"|(PATCHBAY|GRANIAN|FLASK|WERKZEUG|PYDANTIC|OTEL|SQLITE)_.*"
)
"""Names of variables that change the hub, or programs that it starts. A mount does not set them for the whole hub."""

_FORBIDDEN_IN_NAME = re.compile(r"[^A-Za-z0-9_.-]+")


@dataclass
class Variables:
    """The variables that mounts refer to. `values` has those whose value an application's file has.

    `servers` names the mounts that refer to each of these.
    """

    values: dict[str, str] = field(default_factory=dict)
    servers: dict[str, set[str]] = field(default_factory=dict)
    named: set[str] = field(default_factory=set)

    def add(self, preferred: str, server: str, value: str) -> str:
        """Return the reference to a variable with this value.

        The name is unlike those of other values, and of variables that change programs.
        """
        choices = [preferred, variable_name(f"{server}_{preferred}")]
        choices += [f"{choices[1]}_{number}" for number in range(2, len(self.values) + 3)]
        choices += [f"MOUNT_{one}" for one in choices]
        allowed = (one for one in choices if not _CHANGES_PROGRAMS.fullmatch(one))
        name = next(one for one in allowed if self.values.get(one, value) == value and one not in self.named)
        self.values[name] = value
        self.servers.setdefault(name, set()).add(server)
        return f"${{{name}}}"

    def note(self, text: str) -> None:
        """Remember the variables that a text refers to and that need a value."""
        self.named |= {found[1] for found in _REFERENCE.finditer(text) if not found[2]}

    @property
    def missing(self) -> list[str]:
        """The names whose values only the application, or its user, knows."""
        return sorted(self.named - set(self.values))


def mount_name(entry: Entry, client: str, is_taken: Callable[[str], bool]) -> str:
    """Return a name for the mount of an entry: its own, or one that also names the client, or a number."""
    base = _FORBIDDEN_IN_NAME.sub("-", entry.name).strip("-.")[:100] or client
    choices = [base, f"{base}-{client}", *(f"{base}-{client}-{number}" for number in range(2, 1000))]
    return next(name for name in choices if not is_taken(name))


def mount_fields(entry: Entry, name: str, variables: Variables, known: Known = NOTHING_KNOWN) -> dict[str, Any]:
    """Return the definition of a mount. `known` says of names of variables and headers whether they hold a secret.

    Raises Inexpressible for a server that a mount cannot describe.
    """
    if entry.target is None:
        raise Inexpressible(entry.problem)
    fields: dict[str, Any] = {"kind": "upstream"}
    try:
        if isinstance(entry.target, Http):
            _check_url(entry.target.url)
            fields["address"] = format_address(entry.target)
            fields |= _sign_in(entry.sign_in, name, variables) if entry.sign_in is not None else {}
            headers = hide_headers(entry.target.headers, name, variables, known)
            fields |= {"headers": headers} if headers else {}
        else:
            fields["address"] = format_address(_with_references(entry.target, name, variables))
            env = hide_environment(entry.target.env, name, variables, known)
            fields |= {"environment": env} if env else {}
            variables.note(" ".join((entry.target.command, *entry.target.args)))
    except AddressError as problem:
        raise Inexpressible(problem.message) from problem
    fields |= {"title": entry.title} if entry.title else {}
    fields |= {"description": entry.description} if entry.description else {}
    fields |= {"timeout": entry.seconds} if entry.seconds else {}
    listing = {key: list(value) for key, value in (("include", entry.include), ("exclude", entry.exclude)) if value}
    fields |= {"listing": listing} if listing else {}
    return fields | ({} if entry.enabled else {"enabled": False})


def hide_environment(
    environment: Mapping[str, str], server: str, variables: Variables, known: Known = NOTHING_KNOWN
) -> dict[str, str]:
    """Return the variables of a program with references in place of secrets."""
    return {key: _env(key, value, server, variables, known) for key, value in environment.items()}


def _env(key: str, value: str, server: str, variables: Variables, known: Known) -> str:
    if "${" in value or not value or not known.get(key, is_secret(key, value)):
        variables.note(value)
        return value
    return variables.add(variable_name(key), server, value)


def hide(name: str, value: str, server: str, variables: Variables) -> str:
    """Return a reference to a variable with the value of an option, a query key or the like of a server."""
    return variables.add(variable_name(f"{server}_{name}"), server, value)


def hide_headers(
    headers: Mapping[str, str], server: str, variables: Variables, known: Known = NOTHING_KNOWN
) -> dict[str, str]:
    """Return headers with references in place of secrets; the scheme of `Authorization` stays."""
    found = {}
    for key, value in headers.items():
        if "${" in value or not known.get(key, is_secret(key, value)):
            variables.note(value)
            found[key] = value
            continue
        scheme = _SCHEME.fullmatch(value)
        start, secret = (scheme[1], scheme[2]) if scheme else ("", value)
        found[key] = start + hide(key, secret, server, variables)
    return found


def _sign_in(found: SignIn, server: str, variables: Variables) -> dict[str, Any]:
    """Return the fields of a mount at which each caller signs in."""
    secret = found.client_secret
    if secret and "${" not in secret:
        secret = variables.add(variable_name(f"{server}_CLIENT_SECRET"), server, secret)
    variables.note(f"{found.client_id} {found.client_secret}")
    given = {"client_id": found.client_id, "client_secret": secret, "scope": found.scope}
    oauth = {key: value for key, value in given.items() if value}
    return {"account": CALLER} | ({"oauth": oauth} if oauth else {})


def _check_url(url: str) -> None:
    parts = urlsplit(url)
    secret = next((key for key, _ in parse_qsl(parts.query) if is_secret_name(key)), "")
    if secret or parts.password:
        raise Inexpressible(
            f"its URL has a secret ({secret or 'a password'}); a mount takes secrets in headers: mount it by"
            " `patchbay mount NAME URL --header`"
        )


def _with_references(target: Stdio, server: str, variables: Variables) -> Stdio:
    """Return a program with the secrets of its command line as references."""
    before = ("", *target.args)
    words = tuple(_word(word, option, server, variables) for word, option in zip(target.args, before, strict=False))
    return replace(target, args=words, env={})


def _word(word: str, before: str, server: str, variables: Variables) -> str:
    """Return a word of a command line, `before` being the previous one, with a reference in place of a secret."""
    if "${" in word:
        return word
    option = before if before.startswith("-") and "=" not in before else ""
    pair, header = _PAIR.fullmatch(word), _HEADER.fullmatch(word)
    if pair and is_secret(pair[1], pair[2]):
        return f"{pair[1]}={variables.add(variable_name(pair[1]), server, pair[2])}"
    if header and is_secret(header[1], header[2]):
        return f"{header[1]}: {hide_headers({header[1]: header[2]}, server, variables)[header[1]]}"
    if not word.startswith("-") and is_secret(option, word):
        name = option or ("URL" if "://" in word else "SECRET")
        return hide(name, word, server, variables)
    return word
