"""Typical mistakes at the command line: each gets a message that names the next step (issue 17).

docs/troubleshooting.md has the same table; this test compares them.
"""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import CliRunner

from patchbay import exit_codes
from patchbay.cli import main
from patchbay.stores.folder_lock import claim_folder
from tests.checkout import ROOT
from tests.cli.servers.commands import run_command
from tests.cli.workspace import Ended
from tests.waiting import BOUND

PAGE = ROOT / "docs" / "troubleshooting.md"


class Mistake(NamedTuple):
    """What a user does, a part of the message, and the next step that the message names.

    In the words, {folder} is the folder of the hub and {port} a port in use.
    """

    what: str
    words: tuple[str, ...]
    message: str
    step: str


def mistake(what: str, line: str, message: str, step: str) -> Mistake:
    """A mistake on a command line without quotes: `~` stands for a space inside a word."""
    return Mistake(what, tuple(word.replace("~", " ") for word in line.split()), message, step)


MISTAKES = [
    # Commands and options
    mistake("a wrong command", "lst", "there is no command 'lst'", "did you mean 'list' or 'toolset'?"),
    mistake("a word of another program", "ls", "there is no command 'ls'", "did you mean 'list' (List the servers"),
    mistake("a wrong option", "serve --prot 1", "No such option '--prot'", "Did you mean one of"),
    mistake("an option before the command", "--port 9000", "No such option '--port'", "Options come after a command"),
    mistake("a missing argument", "show", "Missing argument 'NAME'", "Try 'patchbay show --help' for help."),
    mistake("text in place of a number", "serve --port eighty", "got 'eighty'", "expected a whole number"),
    mistake("a number out of range", "serve --workers 0", "got 0", "expected a number from 1 to 1024"),
    mistake(
        "a wrong choice", "serve --access persnal", "got 'persnal'", "expected one of auto, personal, shared, open"
    ),
    mistake("a wrong choice of a command", "completion bsh", "'bsh' is not one of", "'bash', 'zsh', 'fish'"),
    mistake("a wrong time", "logs --since yesterday", "'yesterday'", "such as 15m, 2h, 7d"),
    mistake("a wrong end of a key", "key new robot --expires soon", "got 'soon'", "such as 90d, 12h or 2027-01-31"),
    # Names
    mistake("a typing error in a server's name", "show ehco", "there is no server 'ehco'", "did you mean 'echo'?"),
    mistake("an unknown server to switch", "enable nope", "there is no server 'nope'", "`patchbay list` shows all"),
    mistake("an unknown server to remove", "remove nope --yes", "no server 'nope'", "`patchbay list` shows all"),
    mistake("an unknown server to call", "call /mcp/ehco echo", "there is no server 'ehco'", "did you mean echo?"),
    mistake("an unknown tool", "call /mcp/echo ech message=x", "there is no tool 'ech'", "did you mean echo?"),
    mistake("an unknown profile", "call nope now", "profile not found: nope", "`patchbay list` the servers"),
    mistake("an unknown mount", "unmount nope", "there is no such file", "`patchbay list` shows the servers"),
    mistake("an unknown name to revoke", "revoke nope", "does not know 'nope'", "`patchbay list` shows the servers"),
    mistake("an unknown key", "key revoke nope", "there is no key 'nope'", "`patchbay key list` shows the keys"),
    mistake("an unknown account", "people remove nope", "no account 'nope'", "`patchbay people list` shows all"),
    mistake("a server that was not removed", "restore echo", "this one exists", "`patchbay enable` switches it on"),
    mistake("a name with a space", "new bad~name", "cannot be called 'bad name'", "expected 1 to 128 letters, digits"),
    mistake("a name of the hub's own pages", "new login", "has a page of its own", "choose another name"),
    mistake("the name of another server", "new good", "expected no server good yet", "`patchbay remove good`"),
    mistake("a wrong name of a person", "invite x~y", "cannot be the name of an account", "such as ann"),
    # Arguments
    mistake(
        "a wrong argument", "call /mcp/echo echo mesage=x", "there is no argument 'mesage'", "did you mean 'message'?"
    ),
    mistake("a missing tool argument", "call /mcp/echo echo", "required property", "`patchbay inspect ADDRESS`"),
    mistake(
        "bad JSON", "call /mcp/echo echo --args {bad", "not JSON", 'expected a JSON object such as {"name": "value"}'
    ),
    mistake("JSON in place of NAME=VALUE", "call /mcp/echo echo {}", "expected NAME=VALUE, got '{}'", "--args '{...}'"),
    mistake("a colon in place of the equals sign", "call /mcp/echo echo a:b", "got 'a:b'", "write a=b"),
    mistake("a dot before a tool", "call echo.echo message=x", "there is no server 'echo.echo'", "write echo/echo"),
    mistake("no resource to read", "read /mcp/echo", "expected a resource", "`patchbay inspect /mcp/echo` lists them"),
    mistake("a wrong jq expression", "filter .[", "syntax error", "`patchbay filter --help` has examples"),
    # Definitions and configurations
    mistake(
        "a syntax error in a definition", "call /mcp/broken f", "at line 2: not valid Python", "`patchbay show NAME`"
    ),
    mistake("bad JSON in a configuration", "show badjson", "but it is not JSON", "Next: fix the line above"),
    mistake(
        "a wrong kind", "show wrongkind", 'this is "upsteam"', '"static" or "upstream" or "openapi" or "documents"'
    ),
    mistake("a wrong field", "show wrongfield", "unknown field adress", "did you mean address?"),
    mistake(
        "a configuration without code", "show alone", "only a configuration", "expected alone.py or alone.sh beside it"
    ),
    mistake("a server that is off", "call /mcp/bash execute command=ls", "it is disabled", "`patchbay enable NAME`"),
    mistake(
        "a folder that is not there",
        "new docs --folder /no/such",
        "there is no folder at /no/such",
        "mkdir -p /no/such",
    ),
    # Other servers
    mistake("no address", "mount far nonsense", "not an address: 'nonsense'", "write mcp+npx://nonsense"),
    mistake(
        "a word after an address",
        "mount far https://mcp.example/mcp extra",
        "expected one address, got 2 words",
        "quote an address or a path with spaces",
    ),
    mistake(
        "a command line without --",
        "mount files npx -y server",
        "No such option '-y'",
        "Write -- before a command line: patchbay mount files -- npx -y server",
    ),
    mistake(
        "a Python file to mount",
        "mount own {folder}/servers/good.py",
        "good.py is a file",
        "to serve its functions as tools: cp",
    ),
    mistake(
        "a file of FastMCP to mount",
        "mount own {folder}/own.py",
        "a file with an MCP server of its own",
        "to run it: patchbay mount own -- uv run --with fastmcp fastmcp run",
    ),
    mistake(
        "a URL in place of a name", "add https://far.example/mcp", "a name of a registry", "run `patchbay mount far"
    ),
    mistake("a folder to mount", "mount own {folder}/servers", "servers is a folder", "patchbay new own --folder"),
    mistake("an unknown launcher", "inspect mcp+foo://x", "'foo' is not known", "expected one of uvx, npx, python"),
    mistake(
        "a secret in a configuration",
        "mount far https://a.example/mcp --header Authorization:Bearer~abc",
        "not a secret",
        "expected a variable such as ${NAME}",
    ),
    mistake(
        "a server that does not run", "call http://127.0.0.1:9/mcp now", "cannot be reached", "Next: check the address"
    ),
    mistake("a missing program", "inspect mcp+stdio:no-such-program", "no-such-program", "Next: check the address"),
    mistake(
        "an approval of a server without changes", "approve nope", "no pins of a server 'nope'", "servers with pins"
    ),
    # The hub
    mistake(
        "a file to serve",
        "serve {folder}/servers/good.py",
        "unexpected extra argument",
        "A hub serves the files of its servers folder: cp",
    ),
    mistake("a port in use", "serve --port {port}", "Address already in use", "--port 0 chooses a free port"),
    mistake(
        "a second hub on a data folder", "serve --port 0", "in use by another hub", "`patchbay open` shows that hub"
    ),
    mistake("no hub to restart", "restart echo --data {folder}/none", "no hub runs", "`patchbay serve` starts one"),
    mistake("no hub to open", "open --data {folder}/none", "no hub runs", "`patchbay serve` starts one"),
    mistake("a wrong data folder", "gc --data {folder}/none", "there is no data of a hub", "--data names its folder"),
    mistake("a data folder without rights", "token --data /proc/no", "cannot be used", "`patchbay doctor` checks it"),
    mistake("no token yet", "token --show --data {folder}/none", "no token yet", "`patchbay token` makes one"),
    mistake("a removal without a terminal", "remove good", "good was not removed", "add --yes"),
]

FILES = {
    "good.py": "def f() -> int:\n    return 1\n",
    "broken.py": "x = 1\ndef (\n",
    "badjson.json": '{"kind": "upstream", ',
    "wrongkind.json": '{"kind": "upsteam", "address": "https://a.example/mcp"}',
    "wrongfield.json": '{"kind": "upstream", "adress": "https://a.example/mcp"}',
    "alone.mcp.json": "{}",
}


class Place(NamedTuple):
    """The folder of a hub, and a port in use."""

    folder: Path
    port: int


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Folders with broken servers; this process holds the lock of the data folder and listens on a port."""
    folder = tmp_path_factory.mktemp("mistakes")
    (folder / "servers").mkdir()
    for name, text in FILES.items():
        (folder / "servers" / name).write_text(text)
    (folder / "own.py").write_text("from fastmcp import FastMCP\n\nmcp = FastMCP('Own')\n")
    assert run_command(folder, "enable", "echo").code == 0
    with socket.socket() as taken, closing(claim_folder(folder / "data")):
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        yield Place(folder, taken.getsockname()[1])


@pytest.mark.parametrize("one", MISTAKES, ids=lambda one: one.what)
def test_the_message_names_the_problem_and_the_next_step(place: Place, one: Mistake) -> None:
    words = [word.replace("{folder}", str(place.folder)).replace("{port}", str(place.port)) for word in one.words]
    is_process = one.words[0] == "serve" and one.words[-1] in ("{port}", "0") and "--port" in one.words
    ended = run_process(place.folder, *words) if is_process else run_command(place.folder, *words)
    said = " ".join((ended.out + ended.err).replace('\\"', '"').split())
    assert one.message in said
    assert one.step in said
    assert ended.code != 0 or one.words[0] == "show"


def run_process(folder: Path, *words: str) -> Ended:
    """Run a command that sets up its process before it fails."""
    own = ["--data", str(folder / "data"), "--servers", str(folder / "servers")]
    command = [sys.executable, "-m", "patchbay", *words, *own]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=BOUND, check=False)
    return Ended(done.returncode, done.stdout, done.stderr)


def test_no_message_is_in_the_table_twice() -> None:
    assert len({one.what for one in MISTAKES}) == len(MISTAKES) >= 40


def table() -> list[str]:
    """The rows of the page."""
    return [f"| {one.what} | `{command_line(one)}` | {one.message} | {one.step} |" for one in MISTAKES]


def command_line(one: Mistake) -> str:
    """The command line of a mistake, with quotes where a shell needs them."""
    words = [f'"{word}"' if " " in word else word for word in one.words]
    return (
        " ".join(["patchbay", *words])
        .replace("{folder}/none", "/srv/empty")
        .replace("{port}", "8000")
        .replace("{folder}/", "")
    )


def test_the_page_has_each_mistake_with_its_message_and_its_next_step() -> None:
    text = PAGE.read_text("utf-8")
    rows = [line for line in text.partition("## Without a message")[0].splitlines() if line.startswith("| ")][2:]
    assert rows == table()


def test_a_file_to_serve_is_named_with_the_servers_folder_of_the_command(tmp_path: Path) -> None:
    for name in ("good.py", "other.txt"):
        (tmp_path / name).touch()
    options = ["--servers", str(tmp_path / "mine"), "--public-url", str(tmp_path / "other.txt")]
    done = CliRunner().invoke(main, ["serve", *options, str(tmp_path / "good.py")])
    assert done.exit_code == exit_codes.USAGE
    assert f"cp {tmp_path}/good.py {tmp_path}/mine/" in done.output
    alone = CliRunner().invoke(main, ["serve", *options, "nothing"])
    assert alone.exit_code == exit_codes.USAGE and "cp " not in alone.output
