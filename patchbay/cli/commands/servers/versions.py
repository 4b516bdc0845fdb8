"""The commands `patchbay versions`, `diff` and `rollback`: the earlier versions of a server.

They read and change the store of the data folder; a running hub follows at once.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import unified_diff
from typing import Any
from urllib.parse import quote

import click
import orjson

from patchbay import exit_codes
from patchbay.catalogue.operating.past_versions import (
    PastVersion,
    describe_version,
    find_previous,
    find_version,
    list_versions,
    put_back,
)
from patchbay.cli.completion.values import complete_server, complete_version
from patchbay.cli.data_store import CHANGED_BY, opened_store
from patchbay.cli.hub_elsewhere import GivenHub, HubElsewhere, find_hub_elsewhere, with_hub_elsewhere
from patchbay.cli.options import with_hub
from patchbay.cli.running_hub import RunningHub, find_running_hub, load_hub_settings
from patchbay.cli.server_directory import opened_catalogue
from patchbay.cli.terminal.failures import exit_on_error
from patchbay.cli.terminal.local_times import format_local_time
from patchbay.cli.terminal.messages import format_rows, make_printable, quote_word
from patchbay.client.addresses.targets import mask_url
from patchbay.errors import ConfigError
from patchbay.settings import Settings
from patchbay.store import Store
from patchbay.web.rendering.content_kinds import decode_text
from patchbay.web.rendering.highlighting import format_readable
from patchbay.web.rendering.templates import shorten_cid

CHANGED = f"{exit_codes.GREETER} and changes of its file"

TOOLSETS = "/toolsets"
"""The pages of toolsets of a hub, and what commands send to them."""

COLORS = {"+": "green", "-": "red", "@": "cyan"}
"""The colour of a line of a comparison on a terminal, by its first character."""


@dataclass(frozen=True, slots=True)
class _OpenedStore:
    """The store that a command reads, the hub that runs on it, and the names of all servers."""

    settings: Settings
    store: Store
    hub: RunningHub | None
    names: list[str]


@click.command(
    "versions",
    epilog=exit_codes.with_examples(
        "patchbay versions greeter", "patchbay diff greeter 1", "patchbay rollback greeter 1", after=exit_codes.GREETER
    ),
)
@click.argument("name", shell_complete=complete_server)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object for each version.")
@with_hub_elsewhere
@with_hub
@click.pass_context
def versions_command(context: click.Context, /, name: str, as_json: bool, elsewhere: GivenHub, **_: Any) -> None:
    """List the versions of the server NAME, the newest first.

    Each has its number, time, author and reason. The last column ends the address of the version, `/mcp/NAME@VERSION`.
    """
    with exit_on_error():
        hub = find_hub_elsewhere(elsewhere)
        if hub is not None:
            found = _read_versions(hub, name)
        else:
            with _opened(context) as place:
                found = [describe_version(one) for one in list_versions(place.store, name, place.names)]
        if as_json:
            for one in found:
                click.echo(orjson.dumps(one))
            return
        rows: list[tuple[str, ...]] = [("NUMBER", "TIME", "WHO", "WHY", "VERSION")]
        click.echo(format_rows(rows + [_make_row(one) for one in found]))


@click.command(
    "diff",
    epilog=exit_codes.with_examples(
        "patchbay diff greeter", "patchbay diff greeter 1", "patchbay diff greeter 1 3", after=CHANGED
    ),
)
@click.argument("name", shell_complete=complete_server)
@click.argument("a", required=False, shell_complete=complete_version)
@click.argument("b", required=False, shell_complete=complete_version)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object with the compared texts.")
@with_hub
@click.pass_context
def diff_command(context: click.Context, /, name: str, a: str | None, b: str | None, as_json: bool, **_: Any) -> None:
    """Compare the versions A and B of the server NAME.

    The command compares definition and configuration line by line. Without B, A is compared with the current version;
    without both, the previous version is. A and B are numbers of `patchbay versions`, or content identifiers. The exit
    code is 6 when the versions differ.
    """
    with exit_on_error(), _opened(context) as place:
        versions = list_versions(place.store, name, place.names)
        old = find_version(versions, name, a) if a is not None else find_previous(versions, name)
        new = find_version(versions, name, b) if b is not None else versions[0]
        parts = list(_compare(place.store, old, new))
    if as_json:
        texts = [{"text": label, "lines": lines} for label, lines in parts]
        click.echo(
            orjson.dumps(
                {"server": name, "old": describe_version(old), "new": describe_version(new), "differences": texts}
            )
        )
    elif not parts:
        click.echo(f"The versions {old.number} and {new.number} of {name} are equal.")
    for _label, lines in () if as_json else parts:
        for line in lines:
            click.secho(make_printable(line), fg=COLORS.get(line[:1]))
    if parts:
        sys.exit(exit_codes.CHANGED)


@click.command(
    "rollback",
    epilog=exit_codes.with_examples("patchbay rollback greeter", "patchbay rollback greeter 1", after=CHANGED),
)
@click.argument("name", shell_complete=complete_server)
@click.argument("version", required=False, shell_complete=complete_version)
@with_hub_elsewhere
@with_hub
@click.pass_context
def rollback_command(context: click.Context, /, name: str, version: str | None, elsewhere: GivenHub, **_: Any) -> None:
    """Put an earlier version of the server NAME back.

    Its files in the servers folder change too. Without VERSION, the previous version comes back. VERSION is a number of
    `patchbay versions`, or a content identifier. The rollback is a new version, which can be rolled back too.
    """
    with exit_on_error():
        hub = find_hub_elsewhere(elsewhere)
        if hub is not None:
            _roll_back_elsewhere(hub, name, version)
        else:
            _roll_back(context, name, version)


def _roll_back_elsewhere(hub: HubElsewhere, name: str, version: str | None) -> None:
    """Put an earlier version of a toolset of a hub elsewhere back. Raises ConfigError without an earlier one."""
    versions = _read_versions(hub, name)
    earlier = [one for one in versions if not one["removed"] and one["cid"] != versions[0]["cid"]]
    if version is None and not earlier:
        raise ConfigError(name, "", "expected an earlier version: it has only one")
    target = version if version is not None else _name_version(earlier[0])
    hub.post(f"{TOOLSETS}/{quote(name, safe='')}", {"do": "rollback", "version": target})
    at = quote_word(mask_url(hub.url))
    undo = f"patchbay rollback {quote_word(name)} {_name_version(versions[0])} --at {at}"
    click.echo(f"{name} is as it was in version {target}. Undo: {undo}, with the same --header")


def _name_version(one: dict[str, Any]) -> str:
    """Return what names a version for `rollback`: its number, or its content identifier where it has none."""
    return str(one["number"] or one["cid"])


def _read_versions(hub: HubElsewhere, name: str) -> list[dict[str, Any]]:
    """Return the versions of a toolset of a hub elsewhere. Raises ConfigError for another server."""
    found = hub.get(f"{TOOLSETS}/{quote(name, safe='')}.json").get("versions")
    if not found:
        raise ConfigError(
            name, "", "expected a toolset: of a hub elsewhere, this command knows the versions of toolsets"
        )
    return list(found)


def _roll_back(context: click.Context, name: str, version: str | None) -> None:
    """Put an earlier version of a server of the own hub back."""
    with _opened(context, is_change=True) as place:
        versions = list_versions(place.store, name, place.names)
        now = versions[0]
        target = find_version(versions, name, version) if version is not None else find_previous(versions, name)
        if not put_back(place.store, place.settings.servers, name, target, now, CHANGED_BY):
            click.echo(f"{name} is at version {target.number} already.")
            return
        if place.hub is not None and not place.hub.wait_for(
            name, lambda row: row is not None and row["version"] == target.version
        ):
            raise ConfigError(name, "", "the hub has not followed yet: `patchbay list` shows what it serves")
        undo = (
            f"patchbay rollback {quote_word(name)} {now.number}" if now.row else f"patchbay remove {quote_word(name)}"
        )
        click.echo(f"{name} is as it was in version {target.number} ({format_local_time(target.at)}). Undo: {undo}")


@contextmanager
def _opened(context: click.Context, is_change: bool = False) -> Iterator[_OpenedStore]:
    """Open the store of the hub; without a running hub, read the servers folder first, as a hub does."""
    settings = load_hub_settings(context)
    if settings.store == "memory":
        raise ConfigError(
            "--store", "", "expected a hub with a data folder; a hub in memory shows its versions on its pages"
        )
    hub = find_running_hub(settings)
    if hub is not None:
        names = list(hub.servers())
        with opened_store(settings, is_change=is_change) as store:
            yield _OpenedStore(settings, store, hub, names)
        return
    with opened_catalogue(settings, is_change=is_change) as catalogue:
        yield _OpenedStore(settings, catalogue.store, None, [server.name for server in catalogue.all()])


def _compare(store: Store, old: PastVersion, new: PastVersion) -> Iterator[tuple[str, list[str]]]:
    """Yield the label and the lines of each text that differs, in the unified format of diff."""
    for label, name in (("definition", "definition_cid"), ("configuration", "config_cid")):
        before, after = getattr(old.row, name, None), getattr(new.row, name, None)
        if before != after:
            yield label, _make_lines(label, old, new, _read_lines(store, before), _read_lines(store, after))
    was, is_now = _state_lines(old), _state_lines(new)
    if was != is_now:
        yield "state", _make_lines("state", old, new, was, is_now)


def _make_lines(label: str, old: PastVersion, new: PastVersion, before: list[str], after: list[str]) -> list[str]:
    titles = [f"{label}, version {one.number}" for one in (old, new)]
    return list(unified_diff(before, after, titles[0], titles[1], lineterm=""))


def _state_lines(one: PastVersion) -> list[str]:
    if one.row is None:
        return ["removed"]
    return ["on" if one.row.enabled else "off"]


def _read_lines(store: Store, cid: str | None) -> list[str]:
    """Return the lines of a content; JSON is indented, and bytes that are no text are described."""
    if cid is None:
        return []
    data = store.blobs.get(cid)
    text = decode_text(data)
    return (
        format_readable(text).splitlines() if text is not None else [f"{len(data)} bytes, which are not text ({cid})"]
    )


def _make_row(one: dict[str, Any]) -> tuple[str, ...]:
    """Return the cells of a version, which is a value of JSON."""
    version = "removed" if one["removed"] else shorten_cid(one["version"])
    mark = " (current)" if one["current"] else ""
    return (
        str(one["number"] or ""),
        format_local_time(one["at"]),
        make_printable(one["who"]),
        make_printable(one["why"]),
        version + mark,
    )
