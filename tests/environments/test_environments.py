"""Definitions with packages of their own, in a hub that takes them from a folder of wheels."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from patchbay.activation import activate
from patchbay.catalogue.operating.environments import EnvironmentCollector
from patchbay.cid import cid_of
from patchbay.descriptors import Discovery
from patchbay.environments.environment import PackageEnvironment
from patchbay.environments.environments import FOLDER, PackageEnvironments
from patchbay.environments.requirements import Requirements
from patchbay.errors import ConfigError
from patchbay.kinds.python.workers.worker_pool import WorkerPool
from patchbay.kinds.registry import Handlers
from patchbay.processes.confinement.protections import ALL
from tests.checkout import ROOT
from tests.environments.wheels import block, make_wheel
from tests.hubs import Hub, shared_hosts
from tests.kinds.calls import call_of
from tests.waiting import until

LOOK = """
import os, sys
import pk_one

def main() -> dict:
    environment = os.environ["VIRTUAL_ENV"]
    try:
        open(environment + "/canary", "w").close()
    except OSError:
        pass
    return {"version": pk_one.version, "python": sys.executable, "same_process": sys.pk_pid == os.getpid(),
            "path": os.environ["PATH"].split(":")[0], "beside": os.listdir(os.path.dirname(environment))}
"""
EMPTY_INDEX = "file:///nowhere/"
PTH = {"pk_one.pth": "import os, sys; sys.pk_pid = os.getpid()\n"}


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheels")
    for version in ("1.0", "2.0"):
        make_wheel(folder, "pk-one", version, PTH, requires=["pk-two"])
    make_wheel(folder, "pk-two", "1.0")
    return folder


@pytest.fixture(scope="module")
def environ(wheels: Path) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "UV_FIND_LINKS": str(wheels), "UV_DEFAULT_INDEX": EMPTY_INDEX}


@pytest.fixture(scope="module")
def hub(environ: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    folder = tmp_path_factory.mktemp("hub")
    files = {
        "newest.py": block("pk-one") + LOOK,
        "older.py": block("pk-one<2") + LOOK,
        "configured.py": LOOK,
        "configured.mcp.json": '{"requirements": ["pk-one"]}',
        "lacking.py": "import pk_one\ndef main(): return pk_one.version",
        "late.py": block("pk-late") + "import pk_late\ndef main(): return pk_late.version",
    }
    hosts = WorkerPool(hidden=[folder / "data"], protections=ALL)
    with pytest.MonkeyPatch.context() as patch:
        for name, text in environ.items():
            patch.setenv(name, text)
        made = Hub(folder, files, hosts)
    yield made
    made.close()
    hosts.close()


def result(hub: Hub, server: str) -> Any:
    answer = hub.call(server, server)
    assert not answer.result["isError"], answer.text
    return answer.result.get("structuredContent") or answer.text


def server_details(hub: Hub, server: str) -> Any:
    return hub.as_operator().client.get(f"/servers/{server}.json").get_json()["server"]


def environment(data: Path, environ: dict[str, str], *packages: str, setting: str = "wheels") -> PackageEnvironment:
    return PackageEnvironments(data, environ, setting).find(Requirements(packages))


def made(one: PackageEnvironment) -> PackageEnvironment:
    one.start()
    until(lambda: one.state in ("ready", "failed"), lambda: one.sentence)
    return one


def test_a_definition_gets_the_packages_of_its_block_in_a_confined_worker(hub: Hub) -> None:
    found = result(hub, "newest")
    folder = hub.settings.data / FOLDER
    [own] = [each for each in folder.iterdir() if found["python"].startswith(f"{each}/")]
    assert found["version"] == "2.0" and found["path"] == str(own / "bin")
    assert found["same_process"], "code of a package ran outside the worker"
    if "landlock" in hub.hosts.protections()["names"]:
        assert not (own / "canary").exists()
    if "namespaces" in hub.hosts.protections()["names"]:
        assert found["beside"] == [own.name]
    page = server_details(hub, "newest")
    assert page["packages"]["state"] == "ready" and page["problems"] == []
    assert page["packages"]["locked"] == ["pk-one==2.0", "pk-two==1.0"]
    assert "pk-one==2.0" in hub.client.get("/servers/newest/settings", headers={"Accept": "text/html"}).text


def test_two_servers_use_two_versions_of_one_package_at_once(hub: Hub) -> None:
    assert [result(hub, name)["version"] for name in ("older", "newest", "older")] == ["1.0", "2.0", "1.0"]


def test_requirements_of_a_configuration_are_those_of_a_block(hub: Hub) -> None:
    assert result(hub, "configured")["python"] == result(hub, "newest")["python"]


def test_a_missing_import_is_a_problem_with_its_line_and_the_lines_to_add(hub: Hub) -> None:
    [problem] = server_details(hub, "lacking")["problems"]
    assert (problem["where"], problem["line"]) == ("import pk_one", 1)
    assert problem["fix"] == '# /// script\n# dependencies = ["pk_one"]\n# ///'
    assert "See the lines" in hub.client.get("/servers/lacking", headers={"Accept": "text/html"}).text
    assert "# dependencies" in hub.client.get("/servers/lacking/source", headers={"Accept": "text/html"}).text


def test_a_failure_names_its_reason_and_the_next_step_and_the_operator_repeats_it(hub: Hub, wheels: Path) -> None:
    answer = hub.call("late", "late")
    assert answer.result["isError"] and "pk-late was not found" in answer.text and "Next step: " in answer.text
    [problem] = until(lambda: server_details(hub, "late")["problems"])
    assert problem["line"] == 1 and "pk-late was not found" in problem["reason"]
    make_wheel(wheels, "pk-late", "3.1")
    again = hub.as_operator().client.post("/servers/late/packages", data={"csrf": ""})
    assert again.status_code == 303, again.text
    assert result(hub, "late") == "3.1"
    until(lambda: server_details(hub, "late")["problems"] == [])


def test_an_environment_that_is_there_needs_no_installation_after_a_restart(
    environ: dict[str, str], tmp_path: Path
) -> None:
    assert made(environment(tmp_path, environ, "pk-one")).state == "ready"
    assert environment(tmp_path, {}, "pk-one", setting="off").state == "ready"
    refused = environment(tmp_path, environ, "pk-two", setting="off")
    assert refused.state == "failed" and "--packages wheels" in refused.sentence


def test_an_environment_that_is_made_again_gets_the_locked_versions(environ: dict[str, str], tmp_path: Path) -> None:
    own = tmp_path / "wheels"
    make_wheel(own, "pk-three", "1.0")
    before = made(environment(tmp_path / "data", environ | {"UV_FIND_LINKS": str(own)}, "pk-three"))
    (before.folder / "environment.json").unlink()
    make_wheel(own, "pk-three", "2.0")
    after = made(environment(tmp_path / "data", environ | {"UV_FIND_LINKS": str(own)}, "pk-three"))
    assert after.installed is not None and after.installed.locked == ("pk-three==1.0",)
    (before.folder / "environment.json").unlink()
    for gone in (own, before.folder.with_name("cache")):
        shutil.rmtree(gone)
    make_wheel(own, "pk-three", "2.0")
    lost = made(environment(tmp_path / "data", environ | {"UV_FIND_LINKS": str(own)}, "pk-three"))
    lock = before.folder.with_name(f"{before.needs.key}.lock.txt")
    assert lost.state == "failed" and f"delete {lock} to find other versions" in lost.sentence
    lock.unlink()
    found = made(environment(tmp_path / "data", environ | {"UV_FIND_LINKS": str(own)}, "pk-three")).installed
    assert found is not None and found.locked == ("pk-three==2.0",)


def test_two_processes_of_a_hub_make_one_environment(environ: dict[str, str], tmp_path: Path) -> None:
    first, second = (environment(tmp_path, environ, "pk-one") for _ in range(2))
    first.start()
    assert made(second).state == made(first).state == "ready"
    assert first.installed == second.installed


def test_a_source_is_not_built_unless_the_setting_permits_it(environ: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "sources").mkdir()
    with tarfile.open(tmp_path / "sources" / "pk_source-1.0.tar.gz", "w:gz") as archive:
        for name, text in (("PKG-INFO", "Metadata-Version: 2.1\nName: pk-source\nVersion: 1.0\n"), ("setup.py", "1/0")):
            row = tarfile.TarInfo(f"pk_source-1.0/{name}")
            row.size = len(text)
            archive.addfile(row, BytesIO(text.encode()))
    found = made(environment(tmp_path / "data", environ | {"UV_FIND_LINKS": str(tmp_path / "sources")}, "pk-source"))
    assert found.state == "failed" and "--packages any" in found.sentence, found.sentence


@pytest.fixture
def silent_index() -> Iterator[str]:
    """The address of a package index that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}/"


def test_a_call_waits_until_its_deadline_and_says_what_is_being_installed(silent_index: str, tmp_path: Path) -> None:
    environments = PackageEnvironments(tmp_path, {"PATH": os.environ["PATH"], "UV_DEFAULT_INDEX": silent_index})
    source = (block("pk-one") + LOOK).encode()
    handler = Handlers(shared_hosts(), environments=environments)("python", source, cid_of(source), "tool")
    assert handler is not None
    ending = list(activate(handler, call_of(target={"function": "main"}, left=2.0)))[-1]
    environments.close()
    assert "the packages of tool are not ready: finding versions of pk-one (" in str(ending)


HALF = """
import sys
from pathlib import Path
from patchbay.environments.environments import PackageEnvironments
from patchbay.environments.requirements import Requirements
made = PackageEnvironments(Path(sys.argv[1]), {"UV_DEFAULT_INDEX": sys.argv[2]}).find(Requirements(("pk-one",)))
made.start()
made._thread.join()
"""


def kill_uv(work: Path) -> None:
    """End the uv that compiles versions in a folder; it would wait for the silent index, and hold the lock."""
    for found in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # a process that ended meanwhile
            words = found.read_bytes().split(b"\0")
            if b"compile" in words and str(work).encode() in b" ".join(words):
                os.kill(int(found.parent.name), signal.SIGKILL)


def is_unlocked(path: Path) -> bool:
    """Tell whether no process holds a lock."""
    with path.open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def test_a_hub_that_is_killed_leaves_nothing_that_passes_for_an_environment(
    silent_index: str, environ: dict[str, str], tmp_path: Path
) -> None:
    command = [sys.executable, "-c", HALF, str(tmp_path), silent_index]
    with subprocess.Popen(command, cwd=ROOT) as process:
        one = environment(tmp_path, environ, "pk-one")
        [left] = until(lambda: list((tmp_path / FOLDER).glob(f"{one.needs.key}.new-*/environment/bin")))
        process.send_signal(signal.SIGKILL)
    assert one.state == "absent" and environment(tmp_path, environ, "pk-one").state == "absent"
    lock = tmp_path / FOLDER / f"{one.needs.key}.making"

    def ended() -> bool:
        kill_uv(left.parents[1])  # each time: the kill of the hub can come before its child becomes uv
        return is_unlocked(lock)

    until(ended)
    assert made(one).state == "ready"
    assert list((tmp_path / FOLDER).glob("*.new-*")) == []


def test_the_collection_removes_what_no_server_requires_and_leaves_its_lock(
    hub: Hub, environ: dict[str, str], tmp_path: Path
) -> None:
    result(hub, "newest")
    data = hub.settings.data
    unused = made(environment(data, environ, "pk-two"))
    collector = EnvironmentCollector(hub.catalogue.store, data, 3600)
    assert collector.preview().count == 0, "it was used within the hour"
    for each in (data / FOLDER).glob("bafk*"):
        os.utime(each, (0, 0))
    assert collector.preview().count == 1
    done = collector.collect()
    assert done.count == 1 and done.size > 0
    assert not unused.folder.exists() and unused.folder.with_name(f"{unused.needs.key}.lock.txt").exists()
    assert result(hub, "newest")["version"] == "2.0"


@pytest.mark.parametrize("uptime", [1.0, 1e6])
def test_an_environment_that_a_collection_removed_is_made_again_for_a_call(
    environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uptime: float
) -> None:
    """The monotonic clock begins at zero when a machine starts."""
    passed = uptime - time.monotonic()
    monkeypatch.setattr(
        "patchbay.environments.environment.time",
        SimpleNamespace(time=time.time, sleep=time.sleep, monotonic=lambda: time.monotonic() + passed),
    )
    one = made(environment(tmp_path, environ, "pk-one"))
    shutil.rmtree(one.folder)
    list(one.wait(call_of()))
    assert one.installed is not None and one.folder.is_dir()


def test_code_inside_the_hub_cannot_have_requirements() -> None:
    handlers = Handlers(shared_hosts(), environments=PackageEnvironments(Path("/nowhere"), {}))
    source = (block("pk-one") + LOOK).encode()
    with pytest.raises(ConfigError, match="code inside the hub has no packages of its own"):
        handlers.examine("python", source, "tool", {"isolation": "inline"}, Discovery())
