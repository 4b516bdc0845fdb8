"""`patchbay mount` and `patchbay unmount`, and the hub that hears of them."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from patchbay.cli.commands.patchbay import main
from tests.client.reaching import SCRIPTED
from tests.hubs import Hub
from tests.waiting import until

PIPED = f"mcp+stdio:{shlex.quote(sys.executable)} -S {shlex.quote(str(SCRIPTED))}"

DOCUMENT = "openapi: 3.1.0\npaths: {}\n"


def patchbay(folder: Path, *words: str) -> Result:
    """Run a command on this servers folder."""
    return CliRunner().invoke(main, [words[0], "--servers", str(folder), *words[1:]])


@pytest.mark.process
def test_a_running_hub_serves_what_is_mounted_until_it_is_unmounted(tmp_path: Path) -> None:
    hub = Hub(tmp_path / "hub")
    try:
        done = patchbay(hub.servers, "mount", "piped", PIPED)
        assert done.exit_code == 0, done.output
        assert "/mcp/piped" in done.output
        until(lambda: "piped" in {one.name for one in hub.catalogue.all()}, "the mount")
        until(lambda: hub.catalogue.find("piped").tools, "its tools")
        assert hub.call("piped", "echo", {"a": 1}).text == '{"a": 1}'
        assert patchbay(hub.servers, "unmount", "piped").exit_code == 0
        until(lambda: "piped" not in {one.name for one in hub.catalogue.all()}, "the mount to go")
    finally:
        hub.close()


def test_the_file_says_what_was_asked_for(tmp_path: Path) -> None:
    options = (
        "--header",
        "Authorization: Bearer ${TOKEN}",
        "--era",
        "legacy",
        "--title",
        "Far",
        "--call-timeout",
        "90",
    )
    assert patchbay(tmp_path, "mount", "far", "https://far.example/mcp", *options).exit_code == 0
    assert json.loads((tmp_path / "far.json").read_text("utf-8")) == {
        "kind": "upstream",
        "address": "https://far.example/mcp",
        "headers": {"Authorization": "Bearer ${TOKEN}"},
        "era": "legacy",
        "title": "Far",
        "timeout": 90.0,
    }


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("mount", "meta", "https://far.example/mcp"), "a page of its own"),
        (("mount", "far", "nonsense"), "not an address"),
        (("mount", "far", "https://far.example/mcp", "--header", "Authorization: secret"), "expected a variable"),
        (("mount", "far", "https://far.example/mcp", "--header", "nothing"), "expected NAME:VALUE"),
        (("mount", "taken", "https://far.example/mcp"), "expected no server taken yet"),
        (("mount", "code", "https://far.example/mcp"), "give the mount another name"),
        (("mount", "taken", "https://far.example/mcp", "--replace"), "expected no server taken yet"),
        (("unmount", "taken"), "expected a mount"),
        (("unmount", "nobody"), "there is no such file"),
        (("unmount", "../far"), "there is no such file"),
    ],
)
def test_an_impossible_mount_is_refused_with_a_reason(tmp_path: Path, words: tuple[str, ...], expected: str) -> None:
    (tmp_path / "taken.json").write_text('{"kind": "static"}', "utf-8")
    (tmp_path / "code.py").write_text("", "utf-8")
    before = {file: file.read_bytes() for file in tmp_path.iterdir()}
    done = patchbay(tmp_path, *words)
    assert done.exit_code == 2
    assert expected in done.output
    assert {file: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_a_mount_is_replaced_when_that_is_asked_for(tmp_path: Path) -> None:
    for address in ("https://one.example/mcp", "https://two.example/mcp"):
        assert patchbay(tmp_path, "mount", "far", address, "--replace").exit_code == 0
    assert json.loads((tmp_path / "far.json").read_text("utf-8"))["address"] == "https://two.example/mcp"


def test_the_file_says_what_happens_with_changes(tmp_path: Path) -> None:
    assert patchbay(tmp_path, "mount", "far", "https://far.example/mcp", "--changes", "hold").exit_code == 0
    assert json.loads((tmp_path / "far.json").read_text("utf-8"))["changes"] == "hold"


def test_an_api_is_mounted_with_what_was_asked_for(tmp_path: Path) -> None:
    """17.2"""
    address = "openapi+https://shop.example/openapi.json?header.X-Key=${KEY}"
    options = ["--base", "https://api.shop.example", "--credential", "user=${USER}:${PASSWORD}", "--tag", "orders"]
    options += ["--path", "/v2/*", "--method", "get", "--pages", "3", "--changes", "tell", "--header", "X-A: b"]
    assert patchbay(tmp_path, "mount", "shop", address, *options).exit_code == 0
    assert json.loads((tmp_path / "shop.json").read_text("utf-8")) == {
        "kind": "openapi",
        "document": "https://shop.example/openapi.json",
        "base": "https://api.shop.example",
        "headers": {"X-Key": "${KEY}", "X-A": "b"},
        "credentials": {"user": "${USER}:${PASSWORD}"},
        "include": {"tags": ["orders"], "paths": ["/v2/*"], "methods": ["GET"]},
        "pages": 3,
        "changes": "tell",
    }
    assert patchbay(tmp_path, "unmount", "shop").exit_code == 0


def test_a_plain_url_of_a_document_and_a_file_are_apis(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text(DOCUMENT)
    for name, address, document in (
        ("one", "https://shop.example/openapi.yaml", "https://shop.example/openapi.yaml"),
        ("two", f"openapi+file:{tmp_path}/x.yaml", f"{tmp_path}/x.yaml"),
    ):
        assert patchbay(tmp_path, "mount", name, address).exit_code == 0
        assert json.loads((tmp_path / f"{name}.json").read_text("utf-8"))["document"] == document


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("https://far.example/mcp", "--tag", "orders"), "expected only with the address of an HTTP API"),
        (("openapi+https://shop.example", "--credential", "key=secret"), "expected a variable"),
        (("openapi+https://shop.example", "--credential", "key"), "expected NAME=VALUE"),
        (("openapi+https://shop.example", "--method", "fetch"), "include.methods.0"),
        (("openapi+https://shop.example", "--env", "A=b"), "environment"),
    ],
)
def test_an_option_that_an_api_cannot_have_is_refused(tmp_path: Path, words: tuple[str, ...], expected: str) -> None:
    done = patchbay(tmp_path, "mount", "shop", *words)
    assert (done.exit_code, list(tmp_path.iterdir())) == (2, [])
    assert expected in done.output


def test_the_entry_that_documentation_prints_is_mounted_from_its_file(tmp_path: Path) -> None:
    file, servers = tmp_path / "mcp.json", tmp_path / "servers"
    entries = {"far": {"url": "https://far.example/mcp", "alwaysAllow": ["x"]}, "near": {"command": "near"}}
    file.write_text(json.dumps({"mcpServers": entries}))
    done = patchbay(servers, "mount", "far", str(file), "--title", "Far")
    assert done.exit_code == 0, done.output
    assert "alwaysAllow is not used" in done.output
    written = json.loads((servers / "far.json").read_text())
    assert written == {"kind": "upstream", "address": "https://far.example/mcp", "title": "Far"}
    done = patchbay(servers, "mount", "other", str(file))
    assert done.exit_code != 0
    assert "expected NAME to be one of far, near" in done.output
    file.write_text(json.dumps({"command": "x", "env": {"API_KEY": "sk-1"}}))
    done = patchbay(servers, "mount", "other", str(file))
    assert "at env.API_KEY: expected a reference such as ${API_KEY}" in done.output
    assert [each.name for each in servers.iterdir()] == ["far.json"]


@pytest.mark.parametrize(
    ("words", "address"),
    [
        (("--", "npx", "-y", "@example/server@1.2.0", "--all"), "mcp+npx://@example/server@1.2.0?launch.arg=--all"),
        (("npx -y @example/server",), "mcp+npx://@example/server"),
        (("uvx", "example-server"), "mcp+uvx://example-server"),
        (("--", "node", "a b.js", "100%"), "mcp+stdio:node 'a b.js' 100%25"),
        (("--", "/srv/a:b", "c"), "mcp+stdio:/srv/a:b c"),
        (("--", "npx pkg entry.json"), "mcp+npx://pkg?launch.arg=entry.json"),
        (("mcp+stdio:node a.js",), "mcp+stdio:node a.js"),
    ],
)
def test_a_command_line_is_mounted_as_it_is_typed(tmp_path: Path, words: tuple[str, ...], address: str) -> None:
    done = patchbay(tmp_path, "mount", "own", *words)
    assert done.exit_code == 0, done.output
    assert json.loads((tmp_path / "own.json").read_text("utf-8"))["address"] == address


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("https://mcp.example/mcp", "extra"), "expected one address, got 2 words: https://mcp.example/mcp extra"),
        (("mcp+npx://pkg", "/srv/x"), "if it is a program, write -- before its command line"),
        (("mcp+stdio:node", "a.js"), 'patchbay mount own "mcp+stdio:node a.js"'),
        (("@work", "extra"), "expected one address"),
        (("./entry.json", "extra"), "expected one address"),
        (("./a", "folder"), 'patchbay mount own "./a folder"'),
        (("npx 'foo",), "expected a command line whose quotation marks are closed"),
        (("./no such.json",), "No such file"),
        (("./a folder",), 'patchbay new own --folder "a folder"'),
        (("./a server.py",), "to serve its functions as tools"),
    ],
)
def test_words_that_are_neither_an_address_nor_a_command_line_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], expected: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a folder").mkdir()
    (tmp_path / "a server.py").touch()
    done = patchbay(tmp_path / "servers", "mount", "own", *words)
    assert (done.exit_code, expected in done.output) == (2, True), done.output
    assert not (tmp_path / "servers" / "own.json").exists()


def test_a_file_whose_path_has_a_space_is_read(tmp_path: Path) -> None:
    file = tmp_path / "my entry.json"
    file.write_text(json.dumps({"url": "https://far.example/mcp"}))
    done = patchbay(tmp_path / "servers", "mount", "far", str(file))
    assert done.exit_code == 0, done.output
    assert json.loads((tmp_path / "servers" / "far.json").read_text())["address"] == "https://far.example/mcp"


@pytest.mark.parametrize("address", ["openapi+file:shop.json", "openapi+file:./shop.yaml", "openapi+file:~/shop.yaml"])
def test_the_file_of_a_document_is_found_from_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "shop.yaml").write_text(DOCUMENT)
    (tmp_path / "shop.json").write_text(json.dumps({"openapi": "3.1.0", "paths": {}}))
    done = patchbay(tmp_path / "servers", "mount", "shop", address)
    assert done.exit_code == 0, done.output
    document = json.loads((tmp_path / "servers" / "shop.json").read_text())["document"]
    assert document == str(tmp_path / address.rpartition("/")[2].removeprefix("openapi+file:"))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (
            ("mount", "shop", "openapi+file:missing.yaml"),
            "at document: there is no file {}/missing.yaml; write",
        ),
        (("mount", "shop", "openapi+file:."), "{} is a folder; write the path of the OpenAPI document in it"),
        (("mount", "shop", "openapi+file:"), "expected the path or the URL of an OpenAPI document"),
        (("mount", "shop", "openapi+file:broken.yaml"), "broken.yaml: expected JSON or YAML; expected ',' or '}}'"),
        (("mount", "shop", "openapi+file:broken.yaml"), "but got '<stream end>' at line 2, column 1"),
        (("mount", "shop", "openapi+file:bytes.yaml"), "it is not text in UTF-8 (invalid start byte at position 0)"),
        (
            ("mount", "shop", "openapi+file:empty.yaml"),
            "an OpenAPI document, a JSON or YAML object; this is empty",
        ),
        (("mount", "shop", "openapi+file:page.html"), "this is a page or a document with tags (HTML, XML)"),
        (("mount", "shop", "openapi+file:old.json"), 'expected "openapi": "3.x" or "swagger": "2.0", got "swagger"'),
        (("mount", "shop", "missing.yaml"), "there is no file {}/missing.yaml; write openapi+file:PATH"),
        (
            ("mount", "shop", "old.json"),
            "the HTTP API that it describes: patchbay mount shop openapi+file:old.json",
        ),
        (("mount", "shop", "broken.yaml"), "patchbay mount shop openapi+file:broken.yaml"),
        (("mount", "library", "@library"), "there is no profile library; searched {0}/.jn/profiles/mcp"),
        (("mount", "library", "@library"), "{0}/.jn/profiles/http, {0}/home/.local/jn/profiles/http"),
        (("mount", "library", "@library"), "`patchbay profile list` shows the profiles"),
        (("mount", "shop", "mcp://shop"), "mcp://shop: no such preset in {}/.jn/mcp-launchers.json"),
        (("new", "shop", "--api", "missing.yaml"), "there is no file {}/missing.yaml"),
        (("new", "shop", "--api", "ftp://shop.example/x.yaml"), "expected a URL with https:// or http://, or a path"),
        (("new", "library", "--remote", "@library"), "there is no profile library"),
    ],
)
def test_a_mount_of_what_does_not_exist_or_describes_no_api_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], expected: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for file, data in {
        "broken.yaml": b"info: {title: Shop\n",
        "bytes.yaml": b"\x89PNG\r\n\x1a\n",
        "empty.yaml": b"",
        "page.html": b"<!doctype html><p>Sign in",
        "old.json": b'{"swagger": "1.2", "apis": []}',
    }.items():
        (tmp_path / file).write_bytes(data)
    done = patchbay(tmp_path / "servers", *words)
    assert done.exit_code == 2
    assert expected.format(tmp_path) in done.output
    assert not list((tmp_path / "servers").glob("*.json"))


@pytest.mark.parametrize(
    "address", ["http://127.0.0.1:9/mcp", "openapi+http://127.0.0.1:9", "openapi+file:${FOLDER}/shop.yaml"]
)
def test_a_server_that_is_away_and_a_path_that_is_not_known_yet_are_mounted(tmp_path: Path, address: str) -> None:
    done = patchbay(tmp_path, "mount", "later", address)
    assert done.exit_code == 0, done.output
    assert (tmp_path / "later.json").exists()
