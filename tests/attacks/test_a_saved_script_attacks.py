"""The author of a saved script, or of the file that names it, tries to get more than a tool of a toolset has.

Source: docs/scripts.md, Saved scripts.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hubs import Hub
from tests.kinds.toolset.sets import hub_with, listed, problems, toolset, write


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    found = hub_with(tmp_path_factory.mktemp("scripts"), {"release.json": saved("def f() -> int:\n    return 1\n")})
    yield found
    found.close()


def saved(script: str, name: str = "tool") -> str:
    return toolset(include=["git.status"], tools={name: {"script": script}})


def failure(hub: Hub, script: str) -> str:
    """Save a script and call it; return why it failed."""
    write(hub, "release.json", saved(script))
    assert "tool" in listed(hub), problems(hub)
    answer = hub.call("release", "tool")
    assert answer.result["isError"], answer.result
    return answer.text


def test_nothing_of_a_script_runs_when_it_is_saved(hub: Hub, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    code = f"open({str(mark)!r}, 'w').write('x')\n\n\ndef f(x: int = print('default')) -> int:\n    return 1\n"
    write(hub, "release.json", saved(code))
    assert "tool" in listed(hub) and not mark.exists()
    hub.call("release", "tool")
    assert not mark.exists()


@pytest.mark.parametrize("line", ["import subprocess", "import ctypes", "from patchbay import settings", "import git"])
def test_a_script_imports_nothing_but_its_toolset(hub: Hub, line: str) -> None:
    assert failure(hub, f"def f() -> int:\n    {line}\n    return 1\n").startswith("The script does not fit its tools.")


def test_a_script_reads_no_file_and_no_environment(hub: Hub) -> None:
    assert "root:" not in failure(hub, "def f() -> str:\n    return open('/etc/passwd').read()\n")
    assert failure(hub, "import os\n\n\ndef f() -> str:\n    return os.environ['PATH']\n")


def test_a_script_that_calls_its_own_tool_is_a_cycle(hub: Hub) -> None:
    code = "import release\n\n\nasync def f() -> int:\n    return await release.tool()\n"
    assert "these tools call each other in a cycle" in failure(hub, code)


def test_two_scripts_that_call_each_other_are_a_cycle(hub: Hub) -> None:
    code = "import release\n\n\nasync def f() -> int:\n    return await release.{}()\n"
    tools = {"tool": {"script": code.format("other")}, "other": {"script": code.format("tool")}}
    write(hub, "release.json", toolset(include=["git.status"], tools=tools))
    said = hub.call("release", "tool").text
    assert "cycle" in said or "limit depth" in said


@pytest.mark.parametrize("name", ["run_script", "find_tools"])
def test_a_script_takes_no_name_of_the_tools_that_run_scripts(hub: Hub, name: str) -> None:
    write(hub, "release.json", saved("def f() -> int:\n    return 1\n", name))
    assert "the hub runs scripts by a tool of this name" in str(hub.catalogue.find_any("release").broken)


def test_a_parameter_hides_no_name_of_the_script(hub: Hub) -> None:
    code = "import release\n\n\nasync def f(release_: str, given: str, f: str) -> str:\n"
    write(hub, "release.json", saved(f"{code}    return given + f + await release.status()\n"))
    assert hub.call("release", "tool", {"release_": "a", "given": "b", "f": "c"}).text == "bcclean"


MANY = " | ".join(["T{}"] * 30)
ALIASES = "".join(f"T{one + 1} = dict[str, {MANY.replace('{}', str(one))}]\n" for one in range(7))
"""Types that name each other thirty times, seven deep: 30 ** 7 types when each name is followed."""


@pytest.mark.parametrize("function", ["def f(x: T7) -> int:", "def f() -> T7:"])
def test_types_that_name_each_other_many_times_are_read_once(hub: Hub, function: str) -> None:
    write(hub, "release.json", saved(f"T0 = int\n{ALIASES}\n\n{function}\n    return 1\n"))
    assert "tool" in listed(hub), problems(hub)
    wrong = f"T0 = bytes\n{ALIASES}\n\n{function}\n    return 1\n"
    write(hub, "release.json", saved(wrong))
    assert "tool" not in listed(hub) and "is 'T7', which is no type of JSON here" in str(problems(hub))


def test_a_type_that_names_itself_is_refused(hub: Hub) -> None:
    write(hub, "release.json", saved("T = list[T]\n\n\ndef f(x: T) -> int:\n    return 1\n"))
    assert "tool" not in listed(hub) and "is 'T', which is no type of JSON here" in str(problems(hub))


@pytest.mark.parametrize(
    "default",
    [
        *("10 ** 10 ** 10", "[0] * 10 ** 12", "'a' * 10 ** 12", "f'{1:>1000000000000}'", "float('nan')", "1e999"),
        *("9" * 9999, "-" * 50000 + "1", "[" * 20000 + "]" * 20000, "0x" + "f" * 90000, "f" + "()" * 30000),
        "'\\ud800'",
    ],
)
def test_a_default_value_takes_nothing_when_it_is_saved_and_ends_within_the_limits_of_its_call(
    hub: Hub, default: str
) -> None:
    write(hub, "release.json", saved(f"def f(x: int = {default}) -> int:\n    return 1\n"))
    if "tool" in listed(hub):
        hub.call("release", "tool")
    assert hub.call("release", "status").text == "clean"


CODINGS = ["rot13", "hex", "zlib", "uu", "undefined", "utf-16", "utf-7", "unicode_escape"]
HIDDEN = "# +AAo-def g() -> int: return 2\n# \\ndef g() -> int: return 2\n"
"""`+AAo-` is a line break in UTF-7, and backslash and n are one in `unicode_escape`."""


@pytest.mark.parametrize("coding", CODINGS)
def test_no_coding_line_makes_python_that_the_hub_reads_differently(hub: Hub, coding: str) -> None:
    """The hub refuses it alone: it goes on to read other files."""
    text = f"# coding: {coding}\n{HIDDEN}\n\ndef f() -> int:\n    return 1\n"
    write(hub, "coded.py", text)
    write(hub, "release.json", saved(text))
    assert "tool" not in listed(hub) and "its coding line names another" in str(problems(hub))
    assert "its coding line names another" in str(hub.catalogue.find_any("coded").broken)
    assert hub.call("release", "status").text == "clean"


@pytest.mark.parametrize("path", ["../secret.py", "/etc/passwd.py", "sub/../../secret.py"])
def test_a_path_stays_in_the_folder_of_the_servers(hub: Hub, path: str) -> None:
    (hub.servers.parent / "secret.py").write_text("def f() -> int:\n    return 1\n")
    write(hub, "leaving.json", saved(path))
    assert "expected a path that stays in the folder of the servers" in hub.catalogue.refused["leaving.json"]
    assert hub.catalogue.find_any("leaving").broken and not hub.catalogue.find_any("leaving").tools


def test_a_link_of_a_script_leads_out_of_no_folder(hub: Hub, tmp_path: Path) -> None:
    outside = tmp_path / "outside.py"
    outside.write_text("def f() -> int:\n    return 1\n")
    (hub.servers / "linked.py").symlink_to(outside)
    write(hub, "linking.json", saved("linked.py"))
    assert "expected a path that stays in the folder of the servers" in hub.catalogue.refused["linking.json"]
    assert hub.catalogue.find_any("linking").broken and not hub.catalogue.find_any("linking").tools


def test_a_path_that_comes_by_a_form_reads_no_file(hub: Hub) -> None:
    (hub.servers / "kept.py").write_text("def f() -> int:\n    return 1\n")
    write(hub, "release.json", saved("def f() -> int:\n    return 1\n"))
    sent = {"do": "script", "tool": "stolen", "script": "kept.py"}
    headers = {"Accept": "application/json", "Authorization": f"Bearer {hub.token}"}
    answer = hub.client.post("/toolsets/release", data=sent, headers=headers)
    assert answer.status_code == 400 and "kept.py is a path" in answer.get_data(as_text=True)
