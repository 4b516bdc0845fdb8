"""`patchbay doctor`: a verdict for each check, and the command that mends each problem (issue 17 item 4)."""

from __future__ import annotations

import json
import os
import socket
from contextlib import closing
from pathlib import Path

import pytest

from patchbay.cli.doctor.hub import check_data_folder, check_reach, check_secret_files
from patchbay.cli.doctor.machine import (
    check_clock,
    check_confinement,
    check_disk,
    check_meaning,
    check_package,
    check_programs,
    check_proxies,
    check_python,
    check_sqlite,
)
from patchbay.cli.doctor.ports import find_listener
from patchbay.cli.doctor.servers import check_folder, describe_change, find_missing_program, locate
from patchbay.cli.doctor.verdicts import CheckResult
from patchbay.processes.confinement import landlock
from patchbay.settings import Settings
from patchbay.stores.folder_lock import claim_folder
from tests.cli.servers.commands import run_command
from tests.interaction.programs import free_port


def verdicts(folder: Path, *words: str) -> tuple[int, dict[str, dict[str, str]]]:
    """The exit code, and the verdicts by check."""
    ended = run_command(folder, "doctor", "--json", *words)
    return ended.code, {row["check"]: row for row in json.loads(ended.out)}


def test_folders_without_a_problem_are_exit_code_0(tmp_path: Path) -> None:
    run_command(tmp_path, "new", "hello")
    ended = run_command(tmp_path, "doctor", "--port", str(free_port()))
    assert ended.code == 0, ended.out
    assert "PROBLEM" not in ended.out
    assert "No problem was found." in ended.err


def test_broken_servers_missing_programs_and_a_taken_port_are_problems(tmp_path: Path) -> None:
    run_command(tmp_path, "new", "far", "--remote", "mcp+stdio:no-such-program --fast")
    (tmp_path / "servers" / "bad.py").write_text("x = 1\ndef (\n")
    (tmp_path / "servers" / "wrong.json").write_text('{"kind": "upsteam"}')
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        code, found = verdicts(tmp_path, "--port", str(taken.getsockname()[1]))
    assert code == 1
    assert found["server bad"]["sentence"].startswith("servers/bad.py:2: ")
    assert "'no-such-program'" in found["server far"]["sentence"]
    assert "upsteam" in found["server wrong"]["sentence"]
    assert f"(process {os.getpid()})" in found["port"]["sentence"]
    assert found["port"]["mend"] == "patchbay serve --port 0"
    assert all(row["mend"] for row in found.values() if row["grade"] != "ok")


def test_the_doctor_says_what_search_by_meaning_would_bring_and_which_model_it_has() -> None:
    assert "pip install 'patchbay-hub[semantic]'" in check_meaning("", ["numpy"], True).sentence
    assert "pip install 'patchbay-hub[semantic]'" in check_meaning("", [], False).sentence
    assert "wordllama" in check_meaning("", [], True).sentence
    assert "/models/notes" in check_meaning("/models/notes", [], True).sentence
    assert "switched off" in check_meaning("off", [], True).sentence


@pytest.mark.parametrize(
    ("verdict", "grade", "mend"),
    [
        (check_python((3, 10), "3.10.1"), "problem", "uvx --python 3.11 --from patchbay-hub patchbay"),
        (check_package(["patchbay", "patchbay-hub"]), "warning", "pip uninstall patchbay"),
        (check_package(["patchbay-hub"]), "ok", ""),
        (check_package([]), "ok", ""),
        (check_sqlite("3.40.0", "a defect"), "warning", "pysqlite3"),
        (check_meaning("", ["numpy"], False), "ok", ""),
        (check_disk(Path("/"), 1, True), "problem", "patchbay gc"),
        (check_disk(Path("/"), 1, False), "problem", "du -xh / | sort -h"),
        (check_disk(Path("/"), 100 * 1024**2, False), "warning", "patchbay gc"),
        (check_clock(1000.0, 2000.0), "problem", "timedatectl"),
        (check_clock(1000.0, 1100.0), "ok", ""),
        (check_confinement(Settings(), 0), "warning", "Linux 5.13"),
        (check_confinement(Settings(protections=()), 7), "warning", "--protections"),
        (check_programs(Settings(confine="off"), 7), "warning", "without --confine"),
        (check_programs(Settings(protections=()), 0), "warning", "namespaces"),
        (check_programs(Settings(protections=("landlock",)), landlock.version()), "warning", "namespaces"),
        (check_programs(Settings(confine="required", protections=("landlock",)), 0), "warning", "namespaces"),
        (check_reach(Settings(host="0.0.0.0")), "problem", "--allowed-hosts"),
        (check_reach(Settings(host="0.0.0.0", access="personal")), "problem", "--access personal"),
        (check_reach(Settings(access="open")), "warning", "--access shared"),
        (check_reach(Settings()), "ok", ""),
    ],
)
def test_each_check_has_its_grade_and_its_mend(verdict: CheckResult, grade: str, mend: str) -> None:
    assert verdict.grade == grade
    assert mend in verdict.mend


def test_a_proxy_without_an_exception_for_this_machine_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "http://proxy.example:3128")
    found = check_proxies({"https_proxy": "http://proxy.example:3128", "NO_PROXY": "intranet"})
    assert (found.grade, found.mend) == ("warning", "export NO_PROXY=127.0.0.1,intranet,localhost")
    assert check_proxies({"https_proxy": "http://proxy.example", "no_proxy": "localhost,127.0.0.1"}).grade == "ok"


def test_secret_files_that_others_can_read_are_a_problem(tmp_path: Path) -> None:
    for name in ("key", "operator"):
        (tmp_path / name).write_text("0" * 64)
        (tmp_path / name).chmod(0o600)
    assert [found.grade for found in check_secret_files(tmp_path)] == ["ok"]
    (tmp_path / "key").chmod(0o644)
    (found,) = check_secret_files(tmp_path)
    assert (found.grade, found.mend) == ("problem", f"chmod 600 {tmp_path / 'key'}; patchbay token")


def test_folders_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    assert [found.grade for found in check_data_folder(Settings(data=tmp_path))] == ["warning"]
    tmp_path.chmod(0o700)
    assert [found.grade for found in check_data_folder(Settings(data=tmp_path))] == ["ok"]
    file = tmp_path / "file"
    file.write_text("")
    assert [found.grade for found in check_data_folder(Settings(data=file))] == ["problem"]
    assert (check_folder(file).grade, check_folder(tmp_path / "none").mend) == ("problem", "patchbay new greeter")


def test_the_program_of_a_mount_is_searched_where_the_hub_searches_it() -> None:
    assert find_missing_program("mcp+stdio:no-such-program -x", {"PATH": ""}) == "no-such-program"
    assert find_missing_program("mcp+uvx://mcp-server-time/mcp-server-time", {"PATH": ""}) == ""
    assert find_missing_program("https://mcp.example/mcp", {}) == ""


def test_the_place_of_a_broken_server_is_file_and_line() -> None:
    assert locate("notes", "servers/notes.py", "notes: at line 3: not valid") == "servers/notes.py:3: not valid"
    assert locate("notes", "servers/notes.py", "it cannot be read") == "servers/notes.py: it cannot be read"


def test_a_port_that_no_process_of_the_user_has_is_of_another_process() -> None:
    assert find_listener(0) == "another process"


def test_a_running_hub_is_in_the_verdicts(tmp_path: Path) -> None:
    """A process that has the data folder and does not answer is a problem with the way out."""
    (tmp_path / "data").mkdir(mode=0o700)
    note = {"url": f"http://127.0.0.1:{free_port()}", "host": "localhost", "process": os.getpid()}
    with closing(claim_folder(tmp_path / "data", note)):
        code, found = verdicts(tmp_path)
    assert code == 1
    assert f"kill {os.getpid()}" in found["hub"]["mend"]


def test_the_line_that_a_program_lacks_goes_into_the_file_that_describes_it(tmp_path: Path) -> None:
    settings, line = Settings(servers=tmp_path), '"writes": ["/srv"]'
    part = describe_change(settings, {"name": "box", "origin": "servers/desktop.json"}, line, True)
    assert part == f"add {line} to the entry of box in {tmp_path}/desktop.json"
    own = describe_change(settings, {"name": "box", "origin": "servers/box.json"}, line, True)
    assert own == f"add {line} on the page /servers/box/settings, or in {tmp_path}/box.json"
    code = describe_change(settings, {"name": "box", "origin": "servers/box.py"}, line, False)
    assert code == f"add {line} on the page /servers/box/settings, or in {tmp_path}/box.mcp.json"
