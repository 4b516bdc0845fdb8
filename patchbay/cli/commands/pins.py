"""The commands `patchbay approve` and `patchbay pins`: what mounted servers changed, and its approval.

They read and write the data folder. A running hub applies an approval without a restart.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import orjson

from patchbay import exit_codes
from patchbay.cli.completion.values import complete_server
from patchbay.cli.data_store import CHANGED_BY, opened_store
from patchbay.cli.options import load_settings, with_settings_in_help
from patchbay.cli.terminal.messages import fail, make_printable, quote_word
from patchbay.errors import PatchbayError
from patchbay.pins.approval import approve, format_item, load_pinned_server, parse_item
from patchbay.pins.documents import PinDocument, describe_key
from patchbay.pins.explanation import Explanation, explain
from patchbay.pins.records import load_pins, pinned_servers
from patchbay.pins.transfer import MAX_DOCUMENT_BYTES, export_approvals, import_approvals
from patchbay.store import Store
from patchbay.views.hidden_characters import show_hidden_characters


@click.command(
    "approve",
    epilog=exit_codes.with_examples(
        "patchbay approve time",
        "patchbay approve time get_current_time",
        after=exit_codes.TIME_MOUNT,
    ),
)
@click.argument("server", shell_complete=complete_server)
@click.argument("entry", required=False)
@click.option(
    "--digest", default="", metavar="DIGEST", help="Approve only these bytes: a CID, or sha256:... of a tool."
)
@click.option("--why", default="", metavar="TEXT", help="The reason, for the history.")
@with_settings_in_help("data")
@click.pass_context
def approve_command(context: click.Context, /, server: str, entry: str | None, digest: str, why: str, **_: Any) -> None:
    """Approve what the mounted SERVER changed. That is one ENTRY, or everything that waits.

    ENTRY is the name of a tool, or prompt:NAME, template:URI or introduction. `patchbay pins list` shows what waits.
    The approval is for the present bytes: when the server changes them, the entry needs another approval.
    """
    with _opened_store(context, is_change=True) as store:
        keys = [parse_item(entry)] if entry else None
        for key, pin in approve(store, server, CHANGED_BY, " ".join(why.split()), keys, digest).items():
            click.echo(make_printable(f"approved {describe_key(key)} of {server}: {pin.digest or pin.cid}"))


@click.group(
    "pins",
    epilog=exit_codes.with_examples(
        "patchbay pins list", "patchbay pins export > approvals.json", "patchbay pins import approvals.json"
    ),
)
def pins_group() -> None:
    """List what mounted servers changed; export approvals."""


@pins_group.command(
    "list",
    epilog=exit_codes.with_examples("patchbay pins list", "patchbay pins list time --all", after=exit_codes.TIME_MOUNT),
)
@click.argument("names", nargs=-1, metavar="[SERVER]...", shell_complete=complete_server)
@click.option("--all", "is_whole", is_flag=True, help="List the approved entries too.")
@click.option("--json", "is_json", is_flag=True, help="Print one JSON object for each entry.")
@with_settings_in_help("data")
@click.pass_context
def list_command(context: click.Context, /, names: tuple[str, ...], is_whole: bool, is_json: bool, **_: Any) -> None:
    """List what waits for approval, of each SERVER or of all, with the meaning of each change."""
    with _opened_store(context) as store:
        count = 0
        for server in names or pinned_servers(store):
            loaded = load_pinned_server(store, server) if names else load_pins(store, server)
            if loaded.problem:
                click.echo(f"patchbay: {make_printable(loaded.problem)}", err=True)
            document = loaded.document or PinDocument()
            for key in document.items if is_whole else document.waiting:
                count += 1
                found = explain(store.blobs, document, key)
                lines = [_encode(server, document, found)] if is_json else _format(server, document, found)
                for line in lines:
                    click.echo(line)
        if not count and not is_json:
            click.echo("No server has pins." if is_whole else "Nothing waits for approval.")


@pins_group.command("export", epilog=exit_codes.with_examples("patchbay pins export > approvals.json"))
@click.argument("names", nargs=-1, metavar="[SERVER]...", shell_complete=complete_server)
@with_settings_in_help("data")
@click.pass_context
def export_command(context: click.Context, /, names: tuple[str, ...], **_: Any) -> None:
    """Print the approvals of each SERVER, or of all, as a JSON document that another hub can import."""
    with _opened_store(context) as store:
        sys.stdout.buffer.write(export_approvals(store, names))
        sys.stdout.buffer.flush()


@pins_group.command(
    "import",
    epilog=exit_codes.with_examples(
        "patchbay pins import approvals.json",
        "patchbay pins import approvals.json --as time",
        after="`patchbay pins export > approvals.json`",
    ),
)
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@click.option("--as", "server", default="", metavar="SERVER", help="The name here of the one server in the document.")
@click.option("--why", default="", metavar="TEXT", help="The reason, for the history.")
@with_settings_in_help("data")
@click.pass_context
def import_command(context: click.Context, /, file: Path, server: str, why: str, **_: Any) -> None:
    """Import the approvals of FILE (- is standard input).

    An entry with exactly these bytes is approved now, or later when a server lists it. A document with an error changes
    nothing.
    """
    with _opened_store(context, is_change=True) as store:
        try:
            with click.open_file(str(file), "rb") as stream:
                data = stream.read(MAX_DOCUMENT_BYTES + 1)
        except OSError as problem:
            fail(f"{file} cannot be read: {problem.strerror}", exit_codes.USAGE)
        done = import_approvals(store, data, CHANGED_BY, " ".join(why.split()), server)
        click.echo(
            f"{done.approved} approved now, {done.ready} waiting for a server that lists these bytes,"
            f" {done.known} known"
        )


@contextmanager
def _opened_store(context: click.Context, is_change: bool = False) -> Iterator[Store]:
    """Open the store of the hub; end the process with a sentence when the block raises."""
    try:
        settings = load_settings(context)
        with opened_store(settings, "use its page /pins", needs_data=True, is_change=is_change) as store:
            yield store
    except PatchbayError as problem:
        fail(problem.message, exit_codes.USAGE)


def _format(server: str, document: PinDocument, found: Explanation) -> Iterator[str]:
    """Yield the lines of one entry for a terminal."""
    item = found.item
    state = "approved"
    if item.is_waiting:
        state = {"hold": "held", "tell": "served, not approved", "follow": "served"}[document.changes]
    elif item.seen is None:
        state = "not listed now"
    pin = item.seen or item.approved
    assert pin is not None
    yield _make_visible(f"{server}: {describe_key(found.key)}: {state}: {pin.digest or pin.cid}")
    if not item.is_waiting:
        return
    for meaning in found.meanings:
        yield _make_visible(f"    {meaning.grade}: {meaning.sentence}")
    for name in found.same_as:
        yield _make_visible(f"    the same definition as {name}, under another name")
    for place in found.hidden:
        yield _make_visible(f"    hidden characters in {place.place}: {' '.join(place.code_points)}")
    for finding in found.instructions:
        yield _make_visible(f"    instruction to the model in {finding.place} ({finding.reason}): {finding.sentence}")
    if found.problem:
        yield _make_visible(f"    {found.problem}")
    entry = quote_word(format_item(found.key))
    yield _make_visible(f"    approve it: patchbay approve {server} {entry} --digest {pin.cid}")


def _encode(server: str, document: PinDocument, found: Explanation) -> str:
    kind, name = found.key
    item = found.item
    pins = {word: _pin(pin) for word, pin in (("approved", item.approved), ("seen", item.seen))}
    value = {
        "server": server,
        "changes": document.changes,
        "kind": kind,
        "name": name,
        "waiting": item.is_waiting,
        **pins,
        "meanings": found.meanings if item.is_waiting else (),
        "hidden": found.hidden,
        "instructions": found.instructions,
        "same_as": found.same_as,
    }
    return orjson.dumps(value).decode()


def _pin(pin: Any) -> dict[str, str] | None:
    return None if pin is None else {"cid": pin.cid, "body": pin.body, "digest": pin.digest}


def _make_visible(line: str) -> str:
    return make_printable(show_hidden_characters(line).replace("\n", " "))
