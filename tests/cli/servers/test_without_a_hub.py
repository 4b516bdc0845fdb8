"""The commands about servers on the folders of a hub that does not run (issue 17 item 4)."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from patchbay import exit_codes
from patchbay.catalogue.operating.removal import DELETED
from tests.cli.servers.commands import run_command
from tests.cli.shells import ask_program


def state(folder: Path, name: str) -> str | None:
    """The state of a server in the list; None without one."""
    listed = run_command(folder, "list", "--json")
    assert listed.code == 0, listed.err
    return {row["name"]: row["state"] for row in json.loads(listed.out)}.get(name)


def test_a_list_without_a_hub_creates_nothing_and_names_the_command_that_starts_one(tmp_path: Path) -> None:
    listed = run_command(tmp_path, "list")
    assert "echo" in listed.out
    assert "`patchbay serve` starts one" in listed.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "file", "words", "text"),
    [
        ((), "hello.py", ("greet", "name=Ann"), "Hello Ann"),
        (("--python",), "hello.py", ("greet", "name=Ann", "loudly=true"), "HELLO ANN"),
        (("--shell",), "hello.sh", ("hello", "input=one two", "args=-w"), "2\n"),
    ],
)
def test_a_new_server_answers_the_call_that_it_prints(
    tmp_path: Path, options: tuple[str, ...], file: str, words: tuple[str, ...], text: str
) -> None:
    made = run_command(tmp_path, "new", "hello", *options)
    assert made.out.splitlines()[0] == f"Made {tmp_path / 'servers' / file}"
    assert f"patchbay call /mcp/hello {words[0]} {words[1].partition('=')[0]}=" in made.out
    called = run_command(tmp_path, "call", "/mcp/hello", *words)
    assert json.loads(called.out)["text"] == text


def test_a_call_without_a_hub_shows_the_line_of_the_code_that_raised(tmp_path: Path) -> None:
    (tmp_path / "servers").mkdir()
    (tmp_path / "servers" / "sums.py").write_text("def share(parts: int) -> float:\n    return 1 / parts\n")
    called = run_command(tmp_path, "call", "/mcp/sums", "share", "parts=0")
    assert re.search(r"sums\.py, line 2, in share\n +return 1 / parts", called.err)
    logged = run_command(tmp_path, "logs").out
    assert "sums.py, line 2, in share" in logged and "return 1 / parts" in logged


def test_a_prompt_without_a_hub_shows_the_line_of_the_code_that_raised(tmp_path: Path) -> None:
    (tmp_path / "servers").mkdir()
    (tmp_path / "servers" / "asks.py").write_text("def ask() -> str:\n    return {}['question']\n")
    (tmp_path / "servers" / "asks.mcp.json").write_text('{"prompts": {"ask": {"function": "ask"}}}')
    ended = run_command(tmp_path, "prompt", "/mcp/asks", "ask")
    assert ended.code == 1
    assert "asks.py, line 2, in ask\n    return {}['question']" in ended.err


@pytest.mark.parametrize(
    ("words", "shown"), [("prompt echo", "echo"), ("read echo", "echo"), ("call /mcp/echo", "/mcp/echo")]
)
def test_a_command_that_lacks_an_entry_names_the_server_as_it_was_typed(tmp_path: Path, words: str, shown: str) -> None:
    ended = run_command(tmp_path, *words.split())
    assert ended.code == exit_codes.USAGE
    assert f"{shown}: expected a" in ended.err and f"`patchbay inspect {shown}` lists them" in ended.err


def test_the_logs_say_where_the_reason_of_a_failure_is_not_recorded(tmp_path: Path) -> None:
    (tmp_path / "servers").mkdir()
    (tmp_path / "servers" / "sums.py").write_text("def share(parts: int) -> float:\n    return 1 / parts\n")
    variables = {"PATCHBAY_ACTIVITY_CONTENTS": "none"}
    run_command(tmp_path, "call", "/mcp/sums", "share", "parts=many", variables=variables)
    run_command(tmp_path, "call", "/mcp/sums", "share", "parts=0", variables=variables)
    logged = run_command(tmp_path, "logs").out
    assert logged.count("The reason is not recorded (setting activity_contents).") == 1
    assert "    ZeroDivisionError\n" in logged and "division by zero" not in logged


def test_a_wrong_name_in_an_annotation_is_a_problem_in_the_list_in_show_and_in_doctor(tmp_path: Path) -> None:
    """Issue 47 item 7."""
    (tmp_path / "servers").mkdir()
    (tmp_path / "servers" / "sums.py").write_text(
        "import json\n\n\ndef total(rows: lst[dict]) -> str:\n    return 'x'\n"
    )
    sentence = "the annotation of rows in total names 'lst', which is not defined (did you mean 'list'?)"
    row = next(one for one in json.loads(run_command(tmp_path, "list", "--json").out) if one["name"] == "sums")
    assert row["problem"].startswith(sentence) and row["problem"].endswith("(line 4)")
    assert f"problem  total line 4: {sentence}" in run_command(tmp_path, "show", "sums").out
    checked = run_command(tmp_path, "doctor")
    assert sentence in checked.out and "line 4" in checked.out


def test_a_new_api_is_a_mount_of_its_document(tmp_path: Path) -> None:
    url = "https://shop.example/openapi.json"
    assert run_command(tmp_path, "new", "shop", "--api", url).code == 0
    assert json.loads((tmp_path / "servers" / "shop.json").read_text()) == {"kind": "openapi", "document": url}
    (tmp_path / "api.yaml").write_text("openapi: 3.1.0\npaths: {}\n")
    assert run_command(tmp_path, "new", "local", "--api", f"{tmp_path}/api.yaml").code == 0
    assert json.loads((tmp_path / "servers" / "local.json").read_text()) == {
        "kind": "openapi",
        "document": f"{tmp_path}/api.yaml",
    }


def test_a_new_folder_and_a_new_remote_server_are_configurations(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "tea.md").write_text("# Tea\n\nBoil water.\n")
    assert run_command(tmp_path, "new", "notes", "--folder", str(tmp_path / "notes")).code == 0
    found = run_command(tmp_path, "call", "/mcp/notes", "search", "query=water")
    assert "tea" in found.out
    file = run_command(tmp_path, "new", "tea", "--folder", str(tmp_path / "notes" / "tea.md"))
    assert file.code == exit_codes.USAGE and f"{tmp_path}/notes/tea.md is a file: write the folder that" in file.err
    assert run_command(tmp_path, "new", "far", "--remote", "https://mcp.example/mcp").code == 0
    assert json.loads((tmp_path / "servers" / "far.json").read_text())["address"] == "https://mcp.example/mcp"
    assert state(tmp_path, "far") == "on"


def test_new_overwrites_nothing(tmp_path: Path) -> None:
    run_command(tmp_path, "new", "hello")
    file = tmp_path / "servers" / "hello.py"
    file.write_text("# mine\n")
    for options in ((), ("--shell",), ("--remote", "https://mcp.example/mcp"), ("--folder", str(tmp_path))):
        again = run_command(tmp_path, "new", "hello", *options)
        assert again.code == exit_codes.USAGE
        assert "patchbay remove hello" in again.err
    assert [each.name for each in (tmp_path / "servers").iterdir()] == ["hello.py"]
    assert file.read_text() == "# mine\n"


def test_a_server_of_a_file_and_a_shipped_one_are_switched(tmp_path: Path) -> None:
    run_command(tmp_path, "new", "hello")
    for name in ("hello", "echo"):
        assert run_command(tmp_path, "disable", name).code == 0
        assert state(tmp_path, name) == "off"
        assert run_command(tmp_path, "enable", name).code == 0
        assert state(tmp_path, name) == "on"
    assert state(tmp_path, "bash") == "off"
    assert run_command(tmp_path, "enable", "bash").code == 0
    assert state(tmp_path, "bash") == "on"


def test_a_server_that_its_configuration_switches_off_is_not_switched_on(tmp_path: Path) -> None:
    (tmp_path / "servers").mkdir()
    (tmp_path / "servers" / "far.json").write_text(
        '{"kind": "upstream", "address": "https://mcp.example/mcp", "enabled": false}'
    )
    ended = run_command(tmp_path, "enable", "far")
    assert ended.code == exit_codes.USAGE
    assert "servers/far.json: at enabled: expected true; change it there" in ended.err


def test_a_removed_server_of_a_file_and_a_shipped_one_come_back(tmp_path: Path) -> None:
    run_command(tmp_path, "new", "hello")
    (tmp_path / "servers" / "hello.mcp.json").write_text('{"title": "Hello"}')
    for name in ("hello", "echo"):
        removed = run_command(tmp_path, "remove", name, "--yes")
        assert removed.code == 0, removed.err
        assert state(tmp_path, name) is None
        assert run_command(tmp_path, "restore", name).code == 0
        assert state(tmp_path, name) == "on"
    assert sorted(each.name for each in (tmp_path / "servers").iterdir()) == [DELETED, "hello.mcp.json", "hello.py"]
    assert list((tmp_path / "servers" / DELETED).iterdir()) == []


def test_nothing_is_removed_without_a_yes(tmp_path: Path) -> None:
    run_command(tmp_path, "new", "hello")
    ended = run_command(tmp_path, "remove", "hello")
    assert (ended.code, "add --yes" in ended.err) == (exit_codes.USAGE, True)
    assert (tmp_path / "servers" / "hello.py").exists()


def test_the_servers_folder_is_that_of_the_last_hub(tmp_path: Path) -> None:
    """A command that names only the data folder does not take the files of another folder for removed."""
    run_command(tmp_path, "new", "spare")
    run_command(tmp_path, "call", "/mcp/spare", "greet", "name=Ann")
    from_elsewhere = run_command(tmp_path, "list", "--json", names_servers=False)
    assert any(row["name"] == "spare" for row in json.loads(from_elsewhere.out))


@pytest.mark.parametrize("words", [("restart", "echo"), ("open",)])
def test_a_command_that_needs_a_running_hub_says_how_to_start_one(tmp_path: Path, words: tuple[str, ...]) -> None:
    ended = run_command(tmp_path, *words)
    assert ended.code == exit_codes.UNREACHABLE
    assert "`patchbay serve` starts one" in ended.err


def test_show_has_one_line_for_each_problem_of_a_server_and_the_list_their_number(tmp_path: Path) -> None:
    (tmp_path / "servers").mkdir()
    fields = {"kind": "toolset", "tools": {"a": "echo.ehco", "b": "echo.echo"}}
    (tmp_path / "servers" / "release.json").write_text(json.dumps(fields))
    row = next(one for one in json.loads(run_command(tmp_path, "list", "--json").out) if one["name"] == "release")
    assert row["problem"] == "1 problem: patchbay show release"
    lines = [line for line in run_command(tmp_path, "show", "release").out.splitlines() if "problem" in line]
    assert lines == ["  problem  tools.a: not listed: echo has no tool 'ehco'; did you mean echo.echo?"]


def test_the_list_and_the_doctor_name_the_files_that_are_not_served(tmp_path: Path) -> None:
    servers = tmp_path / "servers"
    servers.mkdir()
    for name in ("my server.py", "tool.js", "good.py", "team config.json"):
        (servers / name).write_text("{}")
    listed = run_command(tmp_path, "list")
    said = [line for line in listed.err.splitlines() if line.startswith("Not served: ")]
    assert said == [
        "Not served: servers/my server.py: a server cannot be called 'my server': expected 1 to 128 letters, digits, _,"
        " . or -",
        "Not served: servers/tool.js: expected a name that ends with .json, .py or .sh",
    ]
    checked = run_command(tmp_path, "doctor").out
    assert "tool.js is not served: expected a name that ends with" in checked
    assert "good.py is not served" not in checked


def test_the_list_and_the_doctor_name_a_folder_with_a_program_and_no_other_folder(tmp_path: Path) -> None:
    for name in ("weather/server.py", "far/package.json", "scripts/close.py", "notes/one.md", "__pycache__/main.py"):
        (tmp_path / "servers" / name).parent.mkdir(parents=True)
        (tmp_path / "servers" / name).write_text("{}")
    said = [line for line in run_command(tmp_path, "list").err.splitlines() if line.startswith("Not served: ")]
    assert [line.split(": ")[1] for line in said] == ["servers/far", "servers/weather"]
    assert said[1].endswith("mount the command line that starts the program: patchbay mount weather -- COMMAND")
    checked = run_command(tmp_path, "doctor").out
    assert "weather is not served: a folder is no server" in checked
    assert f"move {tmp_path}/servers/weather out of this folder" in checked and "notes is not served" not in checked


def test_show_has_the_first_sentence_of_each_description_and_names_the_command_for_the_rest(tmp_path: Path) -> None:
    (tmp_path / "servers").mkdir()
    words = "Find notes, e.g. by a word. Then a second sentence follows.\n\n    And more."
    file = tmp_path / "servers" / "notes.py"
    file.write_text(f'def find(word: str) -> str:\n    """{words}"""\n    return word\n')
    shown = run_command(tmp_path, "show", "notes").out
    assert "  find(word: string)  Find notes, e.g. by a word.\n" in shown
    assert "second sentence" not in shown and "`patchbay inspect notes` prints the whole descriptions" in shown
    assert "second sentence" in run_command(tmp_path, "inspect", "notes").out
    file.write_text('def find(word: str) -> str:\n    """Find notes."""\n    return word\n')
    assert "patchbay inspect" not in run_command(tmp_path, "show", "notes").out
    file.write_text(f'def find(word: str) -> str:\n    """{"long " * 100}"""\n    return word\n')
    [line] = [one for one in run_command(tmp_path, "show", "notes").out.splitlines() if "find(" in one]
    assert len(line) < 200 and line.endswith("…")


def test_the_list_says_in_words_what_ships_with_the_hub_and_what_is_mounted(tmp_path: Path) -> None:
    servers = tmp_path / "servers"
    servers.mkdir()
    (servers / "far.json").write_text('{"kind": "upstream", "address": "https://far.example/mcp"}')
    rows = {line.split()[0]: line for line in run_command(tmp_path, "list").out.splitlines()}
    assert rows["echo"].endswith("built in")
    assert rows["far"].split()[1] == "mounted"
    assert "kind     shell, built in" in run_command(tmp_path, "show", "echo").out


def test_a_missing_module_is_shown_once_with_the_lines_that_add_it(tmp_path: Path) -> None:
    servers = tmp_path / "servers"
    servers.mkdir()
    (servers / "web.py").write_text("import no_such_module_q7\n\n\ndef f() -> int:\n    return 1\n")
    shown = run_command(tmp_path, "show", "web").out
    assert shown.count("no module no_such_module_q7 is installed") == 1
    assert '           # /// script\n           # dependencies = ["no_such_module_q7"]\n           # ///\n' in shown


NOTED = """
def generate_tools(server_name, context):
    with open({path!r}, "a") as file:
        file.write(server_name + "\\n")
    return [{{"name": "shout", "function": "talk"}}]
"""
"""A transform that notes its run."""


def test_a_command_about_one_server_runs_the_transforms_of_that_server_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that is completed runs none: a person waits for it at each Tab."""
    written = tmp_path / "written"
    written.mkdir()
    monkeypatch.setenv("PATCHBAY_WRITES", str(written))
    transforms = tmp_path / "servers" / "transforms"
    transforms.mkdir(parents=True)
    (transforms / "noted.py").write_text(NOTED.format(path=str(written / "ran")))
    for name in ("first", "second"):
        (tmp_path / "servers" / f"{name}.py").write_text("def talk() -> str:\n    return 'hi'\n")
        config = {"tools_transform_cid": "transforms/noted.py"}
        (tmp_path / "servers" / f"{name}.mcp.json").write_text(json.dumps(config))
    assert ask_program(tmp_path, "patchbay show fir") == ["first"]
    assert not (written / "ran").exists()
    shown = run_command(tmp_path, "show", "first", "--json")
    assert {tool["name"] for tool in json.loads(shown.out)["tools"]} >= {"shout"}
    assert set((written / "ran").read_text().split()) == {"first"}
