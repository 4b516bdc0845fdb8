"""The commands `patchbay mount` and `patchbay unmount`: other MCP servers, and HTTP APIs, as servers of this hub.

A mount is a file in the watched folder, `servers/NAME.json`. A running hub serves it within a second; a stopped hub
serves it after its next start. These commands contact no server, except for the catalogue of a domain.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import click

from patchbay import exit_codes
from patchbay.caller_accounts.credentials import CALLER, HUB
from patchbay.catalogue.operating.named_sources import check_sources, find_api_profile, make_api_fields
from patchbay.catalogue.servers.rows import name_problem
from patchbay.catalogue.watching.mount_files import check_mount, is_mount, read_client_entry, write_mount
from patchbay.cli.completion.values import complete_address, complete_server
from patchbay.cli.options import load_settings, with_settings_in_help
from patchbay.cli.programs.proposals import add_proposed_lines
from patchbay.cli.programs.rights import SETTINGS, take_fields, with_program_rights
from patchbay.cli.secret_storing import ask_for_missing, hide_literals, note_unstored, store_secrets
from patchbay.cli.terminal.messages import quote_word
from patchbay.client.addresses.cards import address_of, is_domain
from patchbay.client.addresses.launchers import DOCUMENT_ENDINGS
from patchbay.client.addresses.mistakes import is_command_line, write_command_line
from patchbay.client.errors import Unreachable
from patchbay.client.profiles.layouts import Profile
from patchbay.client.profiles.lookup import find_homes
from patchbay.client.source import get_scheme
from patchbay.client.sources.http_targets import SCHEMES, is_document
from patchbay.errors import ConfigError, PatchbayError
from patchbay.python_functions.sdk_servers import find_run_command
from patchbay.settings import Settings, whole_environment

DEFINITIONS = {".py": "python", ".sh": "bash"}
"""Endings of files that are servers without a mount, with the program that runs such a file."""

MAX_SNIFFED_BYTES = 4096
"""Bytes at the beginning of a file in which the document of an API says its version."""

_VERSION_OF_API = re.compile(rb"""(^|[{,\s])["']?(openapi|swagger)["']?\s*:""")

_HOW_TO_MOUNT_AN_API = "write openapi+file:PATH for the HTTP API that a file describes"

HAS_MARK = "patchbay.mount.has_mark"
"""The entry of a click context that says whether the words had `--`, after which a command line is meant."""


class MountCommand(click.Command):
    """A command whose last words may be a command line, which begins after `--`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the words. Raises UsageError that says to write `--` before a command line with options."""
        given = list(args)
        ctx.meta[HAS_MARK] = "--" in given
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as problem:
            if "--" in given or len(given) < 3 or not is_command_line(" ".join(given[1:])):
                raise
            line = shlex.join([given[0], "--", *given[1:]])
            raise click.UsageError(
                f"{problem.format_message()} Write -- before a command line: {ctx.command_path} {line}", ctx
            ) from problem


@click.command(
    "mount",
    cls=MountCommand,
    epilog=exit_codes.with_examples(
        'patchbay mount everything "mcp+npx://@modelcontextprotocol/server-everything"',
        'patchbay mount time "mcp+uvx://mcp-server-time/mcp-server-time"',
        "patchbay mount files -- npx -y @modelcontextprotocol/server-filesystem $HOME/notes",
        "patchbay mount far https://mcp.example/mcp --header 'Authorization: Bearer ${FAR_TOKEN}'",
        "patchbay mount tracker https://tracker.example/mcp --account caller",
        "patchbay mount shop openapi+https://shop.example/openapi.json --tag orders --credential 'key=${SHOP_KEY}'",
    ),
)
@click.argument("name")
@click.argument("words", nargs=-1, required=True, metavar="ADDRESS|COMMAND...", shell_complete=complete_address)
@click.option(
    "--header", "headers", multiple=True, metavar="NAME:VALUE", help="Send this HTTP header; write secrets as ${NAME}."
)
@click.option(
    "--env", "variables", multiple=True, metavar="NAME=VALUE", help="Set this environment variable for the program."
)
@click.option(
    "--era", type=click.Choice(["auto", "modern", "legacy"]), default="auto", help="Protocol revisions [default auto]."
)
@click.option(
    "--changes",
    type=click.Choice(["hold", "tell", "follow"]),
    help="What happens to changed tools: withdraw them until you approve them, serve and report them, or serve them.",
)
@click.option(
    "--account",
    type=click.Choice([HUB, CALLER]),
    default=HUB,
    help="Whose account an MCP server sees: that of the hub, or each caller's own [default hub].",
)
@click.option("--base", default="", help="API: the URL before the paths of its document, https://HOST/PATH.")
@click.option(
    "--credential",
    "credentials",
    multiple=True,
    metavar="SCHEME=VALUE",
    help="API: the credential for a security scheme of its document; write secrets as ${NAME}.",
)
@click.option("--tag", "tags", multiple=True, metavar="PATTERN", help="API: serve only operations with this tag.")
@click.option("--path", "paths", multiple=True, metavar="PATTERN", help="API: serve only operations with this path.")
@click.option("--method", "methods", multiple=True, metavar="METHOD", help="API: serve only operations of this method.")
@click.option("--pages", type=click.IntRange(1, 100), help="API: read up to this many pages of a list in one call.")
@click.option("--title", default="", help="The display name of the server.")
@click.option("--call-timeout", type=click.FloatRange(min=0.1), help="Time limit of a call in seconds.")
@click.option("--replace", is_flag=True, help="Replace the mount with this name.")
@with_program_rights
@with_settings_in_help("servers", "data", without=SETTINGS)
@click.pass_context
def mount_command(
    context: click.Context,
    /,
    name: str,
    words: tuple[str, ...],
    headers: tuple[str, ...],
    variables: tuple[str, ...],
    era: str,
    changes: str | None,
    account: str,
    base: str,
    credentials: tuple[str, ...],
    tags: tuple[str, ...],
    paths: tuple[str, ...],
    methods: tuple[str, ...],
    pages: int | None,
    title: str,
    call_timeout: float | None,
    replace: bool,
    **rights: Any,
) -> None:
    """Serve the MCP server or HTTP API at ADDRESS as /mcp/NAME.

    COMMAND is the command line of a program, after -- if it has options.
    ADDRESS may be a domain, https://HOST, whose catalogue names its server.
    ADDRESS may be a JSON file with the entry that the documentation of a server prints for MCP clients.

    The command writes NAME.json into the servers folder. A hub that watches the folder serves the mount within a
    second. A program runs confined; the folders that its command line names are opened for it, and shown.
    """
    try:
        settings = load_settings(context)
        address = _read_address(name, words, settings, context.meta[HAS_MARK])
        profile = find_api_profile(address, find_homes(Path.cwd(), whole_environment()))
        is_api = get_scheme(address) in SCHEMES or is_document(address) or profile is not None
        selected = {"tags": tags, "paths": paths, "methods": tuple(one.upper() for one in methods)}
        own = {
            "base": base,
            "credentials": _parse_pairs(credentials, "=", "--credential"),
            "include": {key: list(value) for key, value in selected.items() if value},
            "pages": pages,
        }
        address = _find_server(address)
        if _is_file(address):
            fields = _make_server_fields(address, era, own) | _read_file(address, name)
        else:
            fields = _make_api_fields(address, profile, own) if is_api else _make_server_fields(address, era, own)
        fields |= {"headers": fields.get("headers", {}) | _parse_pairs(headers, ":", "--header")} if headers else {}
        fields |= {"environment": _parse_pairs(variables, "=", "--env")} if variables else {}
        fields |= {"changes": changes} if changes else {}
        fields |= {"account": account} if account != HUB else {}
        fields |= {"title": title} if title else {}
        fields |= {"timeout": call_timeout} if call_timeout is not None else {}
        fields |= take_fields(rights)
        file, fields = _write(settings, name, fields, replace)
        address = str(fields.get("address", address))
    except PatchbayError as problem:
        _fail(problem.message)
    click.echo(f"{file} mounts {address.partition('?')[0]}; a hub that watches {file.parent} serves it at /mcp/{name}")


def _write(settings: Settings, name: str, fields: dict[str, Any], replace: bool) -> tuple[Path, dict[str, Any]]:
    """Write a mount, with its secrets in the hub; return its file and its fields. Raises PatchbayError."""
    fields, secrets = hide_literals(name, fields)
    check_mount(name, fields, name)
    check_sources(fields, Path.cwd(), find_homes(Path.cwd(), whole_environment()), name)
    fields = add_proposed_lines(fields, settings, name)
    file = write_mount(settings.servers, name, fields, replace)
    if secrets.values:
        note_unstored(store_secrets(settings, secrets.values, secrets.servers)[1])
    ask_for_missing(settings, name, fields)
    return file, fields


def _read_address(name: str, words: Sequence[str], settings: Settings, is_program: bool) -> str:
    """Return the address that the words are, or that of their command line; `is_program` says that they had `--`.

    Raises ConfigError for words that are neither, and for a file or a folder that is a server without a mount.
    """
    if len(words) > 1:
        if not is_program:
            _check_program(name, words)
        return write_command_line(words)
    path = _find_path(words[0])
    if path is not None:
        _check_path(name, path, settings)
        return words[0]
    if words[0].lower().endswith((".yaml", ".yml")) and get_scheme(words[0]) in ("", "/") and not is_program:
        raise ConfigError(name, "", f"there is no file {Path.cwd() / words[0]}; {_HOW_TO_MOUNT_AN_API}")
    if (is_program or not _is_file(words[0])) and is_command_line(words[0]):
        try:
            return write_command_line(shlex.split(words[0]))
        except ValueError as problem:
            expected = f"expected a command line whose quotation marks are closed, got {words[0]!r}"
            raise ConfigError(name, "", expected) from problem
    return words[0]


def _check_program(name: str, words: Sequence[str]) -> None:
    """Check that several words without `--` are a command line. Raises ConfigError for an address or a file."""
    line = " ".join(words)
    is_address = not is_command_line(line) or _is_file(words[0])
    if is_address or _find_path(line) is not None:
        raise ConfigError(
            name,
            "",
            f"expected one address, got {len(words)} words: {line}; quote an address or a path with spaces:"
            f" patchbay mount {name} {quote_word(line)}; if it is a program, write -- before its command line",
        )


def _find_path(text: str) -> Path | None:
    """Return the file or the folder whose path is this text; None for a text that names neither."""
    try:
        path = Path(text).expanduser()
        return path if path.exists() else None
    except (OSError, RuntimeError, ValueError):  # too long, of an unknown user, with a null byte
        return None


def _check_path(name: str, path: Path, settings: Settings) -> None:
    """Check that a path is not a server without a mount. Raises ConfigError with the command to use."""
    if path.is_dir():
        raise ConfigError(
            name,
            "",
            f"{path} is a folder; to serve its documents: patchbay new {name} --folder {quote_word(str(path))}",
        )
    _check_document(name, path)
    if path.suffix in DEFINITIONS and path.is_file():
        copy = f"cp {quote_word(str(path))} {quote_word(str(settings.servers / f'{name}{path.suffix}'))}"
        own = find_run_command(path.read_text("utf-8", "replace")) if path.suffix == ".py" else ""
        program = f"patchbay mount {name} -- {own or DEFINITIONS[path.suffix]} {quote_word(str(path.absolute()))}"
        if own:
            raise ConfigError(name, "", f"{path} is a file with an MCP server of its own; to run it: {program}")
        raise ConfigError(
            name,
            "",
            f"{path} is a file; to serve its functions as tools: {copy}; to run it as an MCP server: {program}",
        )


def _check_document(name: str, path: Path) -> None:
    """Check that a path is not the document of an HTTP API. Raises ConfigError with the command to use."""
    if not path.is_file() or path.suffix.lower() not in DOCUMENT_ENDINGS:
        return
    with path.open("rb") as file:
        is_document = _VERSION_OF_API.search(file.read(MAX_SNIFFED_BYTES)) is not None
    if is_document or path.suffix.lower() != ".json":
        command = f"patchbay mount {name} {quote_word(f'openapi+file:{path}')}"
        raise ConfigError(name, "", f"{path} is a file; to mount the HTTP API that it describes: {command}")


def _find_server(address: str) -> str:
    """Return the address of the server of a domain; any other address, and a silent domain, as it is."""
    if not is_domain(address):
        return address
    try:
        return address_of(address)
    except Unreachable as problem:
        click.echo(f"Patchbay: the catalogue of {address} was not read: {problem.message}", err=True)
        return address


@click.command("unmount", epilog=exit_codes.with_examples("patchbay unmount time", after=exit_codes.TIME_MOUNT))
@click.argument("name", shell_complete=complete_server)
@with_settings_in_help("servers")
@click.pass_context
def unmount_command(context: click.Context, /, name: str, **_: Any) -> None:
    """Remove the mounted server NAME, and end its process."""
    try:
        file = load_settings(context).servers / f"{name}.json"
        if name_problem(name) or not file.is_file():
            expected = "expected the file of a mount, but there is no such file: `patchbay list` shows the servers"
            raise ConfigError(str(file), "", expected)
        if not is_mount(file):
            raise ConfigError(str(file), "kind", "expected a mount, but this file is another kind of server")
        file.unlink()
    except ConfigError as problem:
        _fail(problem.message)
    click.echo(f"Removed {file}: /mcp/{name} is no longer served")


def _is_file(address: str) -> bool:
    """Whether an address is the path of a JSON file."""
    is_path = "://" not in address and not address.startswith(("@", "mcp+", "openapi+"))
    return is_path and address.lower().endswith((".json", ".jsonc"))


def _read_file(address: str, name: str) -> dict[str, Any]:
    """Read the entry of a server from a file for MCP clients, and say which members are not used."""
    fields, unused = read_client_entry(Path(address).expanduser(), name)
    for member, reason in unused.items():
        click.echo(f"{member} is not used: {reason}", err=True)
    return fields


def _make_server_fields(address: str, era: str, own: Mapping[str, Any]) -> dict[str, Any]:
    """Make the configuration of a mounted MCP server. Raises ConfigError for an option of APIs."""
    other = next((name for name, value in own.items() if value), None)
    if other is not None:
        option = {"credentials": "credential", "include": "tag, --path and --method"}.get(other, other)
        raise ConfigError(f"--{option}", "", "expected only with the address of an HTTP API: openapi+https://...")
    return {"kind": "upstream", "address": address} | ({"era": era} if era != "auto" else {})


def _make_api_fields(address: str, profile: Profile | None, own: Mapping[str, Any]) -> dict[str, Any]:
    return make_api_fields(address, profile, Path.cwd()) | {key: value for key, value in own.items() if value}


def _parse_pairs(given: tuple[str, ...], sign: str, option: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in given:
        name, there, value = text.partition(sign)
        if not there or not name.strip():
            raise ConfigError(option, "", f"expected NAME{sign}VALUE")
        found[name.strip()] = value.strip()
    return found


def _fail(sentence: str) -> NoReturn:
    click.echo(f"patchbay: {sentence}", err=True)
    sys.exit(exit_codes.USAGE)
