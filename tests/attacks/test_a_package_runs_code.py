"""A package that a definition requires holds files that Python runs at its start: they run in the worker alone.

The documentation promises that the hub installs wheels and runs no code of them (docs/security.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.attacks.requests import call
from tests.environments.wheels import block, make_wheel
from tests.serving.running import Hub, running
from tests.waiting import until

SECRET = "the-secret-of-the-hub"

LOOK = '''
import json
import os


def look() -> dict:
    """Tell what a package can see and where it ran."""
    return {"pid": os.getpid(), "values": sorted(os.environ.values()), "json": json.__file__, "ran": RAN}
'''
CUSTOM = "sitecustomize.py", "usercustomize.py"


@pytest.fixture(scope="module")
def marks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that confined tools cannot write to; a process that runs code of the package leaves its id there."""
    return tmp_path_factory.mktemp("marks")


@pytest.fixture(scope="module")
def hub(marks: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    folder, wheels = tmp_path_factory.mktemp("hub"), tmp_path_factory.mktemp("wheels")
    make_wheel(wheels, "pk-evil", "1.0", _startup_files(marks))
    make_wheel(wheels, "pk-broken", "1.0", {"pk_broken-1.0.data/scripts/python": "#!python\n"})
    (folder / "servers").mkdir()
    imports = "import pk_evil\nRAN = pk_evil.version"
    for name, text in (
        ("evil", block("pk-evil") + imports + LOOK),
        ("broken", block("pk-evil", "pk-broken") + imports + LOOK),
        ("plain", "RAN = ''" + LOOK),
    ):
        (folder / "servers" / f"{name}.py").write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UV_FIND_LINKS", str(wheels))
        patch.setenv("UV_DEFAULT_INDEX", f"file:///nowhere/{SECRET}")
        patch.setenv("UV_NO_CACHE", "1")
        patch.setenv("PK_SECRET", SECRET)
        with running(folder) as started:
            yield started


def _startup_files(marks: Path) -> dict[str, str]:
    """Files of a wheel that Python runs at its start, and modules that shadow those of the hub."""
    files = {"pk_evil.pth": f"import os; exec({_mark(marks, 'pth')!r})\n"}
    files |= {name: _mark(marks, name) for name in CUSTOM}
    files |= {name: _mark(marks, name) for name in ("json/__init__.py", "patchbay/__init__.py", "orjson.py")}
    return files


def _mark(marks: Path, name: str) -> str:
    """Code that leaves the id of its process in the folder, if it may write there."""
    return (
        f"import os\ntry:\n    open(f'{marks}/{name.replace('/', '.')}.{{os.getpid()}}', 'x')\nexcept OSError: pass\n"
    )


def looked(hub: Hub, server: str) -> Any:
    """Return what the tool tells, as soon as the packages of the server are installed."""
    answers: list[dict[str, Any]] = []

    def find() -> Any:
        answers.append(call(hub, server, "look"))
        return answers[-1].get("structuredContent")

    return until(find, lambda: f"the tool answers; it says {answers[-1]}")


def test_files_of_a_package_that_python_runs_at_its_start_run_in_its_worker_alone(hub: Hub, marks: Path) -> None:
    found = looked(hub, "evil")
    assert found["ran"] == "1.0"
    assert {mark.suffix for mark in marks.iterdir()} <= {f".{found['pid']}"}


def test_a_package_that_fails_after_another_runs_no_code_of_the_other(hub: Hub, marks: Path) -> None:
    """The second attempt of an installation begins with an empty environment."""
    before = set(marks.iterdir())
    answer = call(hub, "broken", "look")
    assert answer["isError"] and "pk-broken" in answer["content"][0]["text"]
    assert set(marks.iterdir()) == before


def test_a_package_changes_no_module_of_the_hub_and_of_other_servers(hub: Hub) -> None:
    evil, plain = looked(hub, "evil"), looked(hub, "plain")
    assert evil["json"] == plain["json"] and plain["ran"] == ""


def test_a_package_sees_no_secret_of_the_hub_and_of_the_index(hub: Hub) -> None:
    assert not [value for value in looked(hub, "evil")["values"] if SECRET in value]
