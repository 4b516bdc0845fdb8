"""The two tools of scripts: where they are listed, where they stay off, and a hub without the interpreter."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from patchbay.activity.records import Filter
from patchbay.catalogue.servers.listing import Listing
from patchbay.catalogue.servers.script_tools import NOT_INSTALLED
from patchbay.descriptors import Descriptor
from tests.checkout import ROOT
from tests.scripting.hubs import SCRIPTED, failure, script, scripted_hub, value

WITHOUT = """
import json, sys

sys.modules["pydantic_monty"] = None
from pathlib import Path

from tests.hubs import Hub

hub = Hub(Path(sys.argv[1]), json.loads(sys.argv[2]))
tools = [one["name"] for one in hub.modern("release", "tools/list").result["tools"]]
problems = [one.reason for one in hub.catalogue.find("release").problems]
loaded = [name for name in sys.modules if name.startswith("patchbay.scripting.runs")]
print(json.dumps([tools, problems, hub.call("release", "run_script", {"code": "1"}).text, loaded]))
hub.close()
"""


def tools(*names: str) -> dict[str, Descriptor]:
    return {name: Descriptor("tool", name, {"name": name, "inputSchema": {}}, {}) for name in names}


@pytest.mark.parametrize(
    ("fields", "listed"),
    [
        ({}, ["a", "b"]),
        ({"scripts": "off"}, ["a", "b"]),
        ({"scripts": "also"}, ["find_tools", "run_script", "a", "b"]),
        ({"scripts": "only"}, ["find_tools", "run_script"]),
        ({"scripts": "only", "always": ["b"]}, ["find_tools", "run_script", "b"]),
        ({"scripts": "only", "search": True}, ["find_tools", "run_script"]),
        ({"scripts": "also", "search": True}, ["find_tools", "run_script", "search_tools", "call_tool"]),
    ],
)
def test_what_a_list_shows(fields: dict[str, object], listed: list[str]) -> None:
    assert list(Listing.of(fields).visible(tools("a", "b"))) == listed


def test_scripts_stay_off_where_a_tool_has_one_of_their_names() -> None:
    listing = Listing(scripts="only")
    assert list(listing.visible(tools("run_script", "a"))) == ["run_script", "a"]
    assert [one.where for one in listing.problems(tools("run_script", "a"))] == ["listing.scripts"]
    assert list(listing.visible({})) == []


def test_a_wrong_value_names_its_place(tmp_path: Path) -> None:
    found = scripted_hub(tmp_path, {"git.mcp.json": json.dumps({"listing": {"scripts": "yes"}})})
    assert "listing.scripts" in found.catalogue.find_any("git").broken
    found.close()


def test_a_hub_without_the_interpreter_lists_the_tools_and_says_what_is_missing(tmp_path: Path) -> None:
    words = [sys.executable, "-c", WITHOUT, str(tmp_path), json.dumps(SCRIPTED)]
    done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [["history", "shut"], [NOT_INSTALLED], NOT_INSTALLED, []]
    assert "patchbay-hub[scripts]" in NOT_INSTALLED


def test_records_keep_no_more_of_a_script_than_of_its_tools(tmp_path: Path) -> None:
    secret = {"isolation": "inline", "auto_discover": True, "listing": {"scripts": "also"}, "activity": "none"}
    found = scripted_hub(tmp_path, {"vault.py": "def put(word: str) -> str:\n    return 'kept'\n"})
    (found.servers / "vault.mcp.json").write_text(json.dumps(secret))
    found.catalogue.read_folder()
    found.catalogue.refresh()
    code = "import vault\nawait vault.put(word='hush')"
    assert value(script(found, "vault", code)) == "kept"
    rows = found.activity.recent(Filter(server="vault"), 10).records
    assert {one.name for one in rows} == {"run_script", "put"}
    assert all(one.arguments is None and one.arguments_cid is None for one in rows)
    assert failure(script(found, "vault", "1 / 0"))
    found.close()
