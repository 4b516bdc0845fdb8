"""A tool in its own process reads the hub's secrets, changes its files, stops its processes, listens on its port.

Each attack runs on a hub with all protections, on one with each of the two protections of files and processes alone,
and on one without protections, where it must succeed: otherwise it proves nothing. On a machine that lacks a feature,
the attacks run with the features that it has.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from patchbay.processes.confinement import landlock
from patchbay.processes.confinement.protections import ALL, LANDLOCK, NAMESPACES, PRIVACY
from tests.attacks.attackers import WAYS, attack, attack_with_power, attacked, command, is_refused
from tests.attacks.ports import ANY_ADDRESS, HOST, IN_USE, OTHER_ADDRESS
from tests.checkout import ROOT
from tests.serving.running import ONE_WORKER, Hub, marks
from tests.waiting import BOUND, until

pytestmark = pytest.mark.process

STRANGER = """
import sys
from pathlib import Path
from patchbay.processes.confinement.kernel import drop_capabilities
drop_capabilities()  # the administrator reads everything
Path(sys.argv[1]).read_bytes()
"""


class Scene:
    """A hub under attack, its folder, and its active protections."""

    def __init__(self, hub: Hub, folder: Path, names: tuple[str, ...]) -> None:
        self.hub = hub
        self.folder = folder
        self.names = names
        self.data = folder / "data"

    def secrets(self) -> list[Path]:
        """Return the files of the data folder that only the hub may read."""
        return sorted(one for one in self.data.iterdir() if one.is_file())

    def pids(self) -> list[int]:
        """Return the process ids of the supervisor, the workers, and their fork servers."""
        workers = self.hub.workers()
        found = [self.hub.process.pid, *workers]
        for worker in workers:
            children = Path(f"/proc/{worker}/task/{worker}/children").read_text().split()
            found += [int(pid) for pid in children]
        return found


@pytest.fixture(scope="module", params=WAYS, ids=lambda names: "+".join(names) or "nothing")
def scene(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("attacked")
    with attacked(folder, request.param) as hub:
        found = Scene(hub, folder, request.param)
        attack(hub, "own_folder")
        (found.data / "other").mkdir()
        (found.data / "other" / "note").write_text("of another server")
        yield found
        assert hub.end() == 0


def test_it_reads_the_key_the_token_and_the_database(scene: Scene) -> None:
    """With the key, an attacker can forge the operator's cookie."""
    secrets = [*scene.secrets(), scene.data / "other" / "note"]
    assert len(secrets) > 2
    for path in secrets:
        result = attack(scene.hub, "read_file", path=str(path))
        assert is_refused(result) == bool(scene.names), (path, result)
        with_shell = command(scene.hub, f"head -c 4 {path}")
        assert is_refused(with_shell) == (LANDLOCK in scene.names), (path, with_shell)


def test_it_lists_the_data_folder(scene: Scene) -> None:
    result = attack(scene.hub, "listing", path=str(scene.data))
    if NAMESPACES in scene.names:
        assert json.loads(result) == ["spy"]
    else:
        assert is_refused(result) == (LANDLOCK in scene.names), result


def test_it_plants_a_server_and_changes_the_hubs_own_code(scene: Scene) -> None:
    """A definition in the folder runs inside the hub when its configuration says so."""
    for path in (scene.folder / "servers" / "planted.txt", scene.folder / "planted"):
        result = attack(scene.hub, "write_file", path=str(path))
        held = bool(scene.names) if path.parent.name == "servers" else LANDLOCK in scene.names
        assert (result != "written") == held, (path, result)
        path.unlink(missing_ok=True)
        result = command(scene.hub, f"touch {path}")
        assert (result != "") == (LANDLOCK in scene.names), (path, result)
        assert path.exists() == (LANDLOCK not in scene.names)
        path.unlink(missing_ok=True)


def test_one_that_may_change_everything_changes_the_hub(scene: Scene) -> None:
    """`"writes": ["/"]` is for servers such as bash: all of the user's files, and no file of the hub."""
    for path in (scene.folder / "servers" / "planted.txt", scene.data / "planted", ROOT / "patchbay" / "planted.txt"):
        result = attack_with_power(scene.hub, "write_file", path=str(path))
        assert path.exists() == (result == "written") == (not scene.names), (path, result)
        path.unlink(missing_ok=True)
    assert is_refused(attack_with_power(scene.hub, "read_file", path=str(scene.secrets()[0]))) == bool(scene.names)
    note = marks(scene.folder) / "note"
    assert attack_with_power(scene.hub, "write_file", path=str(note)) == "written"


def test_it_reads_the_environment_and_the_memory_of_the_hub(scene: Scene) -> None:
    for pid in scene.pids():
        for name in ("environ", "maps"):
            result = attack(scene.hub, "read_file", path=f"/proc/{pid}/{name}")
            assert is_refused(result) == bool(scene.names), (name, result)
            with_shell = command(scene.hub, f"head -c 20 /proc/{pid}/{name}")
            assert is_refused(with_shell) == (LANDLOCK in scene.names), (name, with_shell)


def test_it_signals_the_supervisor_the_workers_and_the_fork_server(scene: Scene) -> None:
    """Signal 0 is checked like any other and does nothing."""
    python = NAMESPACES in scene.names or (LANDLOCK in scene.names and landlock.version() >= landlock.SCOPE_ABI)
    shell = LANDLOCK in scene.names and landlock.version() >= landlock.SCOPE_ABI
    for pid in scene.pids():
        result = attack(scene.hub, "send_signal", pid=pid, number=0)
        # In a namespace a process id may name a process of a tool.
        assert NAMESPACES in scene.names or is_refused(result) == python, (pid, result)
        assert is_refused(command(scene.hub, f"kill -0 {pid}")) == shell
    if python:
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in scene.pids():
                attack(scene.hub, "send_signal", pid=pid, number=int(number))
        before = scene.hub.workers()
        assert "kept" in attack(scene.hub, "own_folder")
        assert scene.hub.workers() == before


def test_it_listens_on_the_port_of_the_hub(scene: Scene) -> None:
    """A tool on the same port, or on that port of another address, would receive the operator's cookie."""
    held = LANDLOCK in scene.names and landlock.version() >= landlock.NETWORK_ABI
    for host in (HOST, ANY_ADDRESS):
        found = attack(scene.hub, "listen", host=host, port=scene.hub.port)
        assert is_refused(found) if held else IN_USE in found, (host, found)
    found = attack(scene.hub, "listen", host=OTHER_ADDRESS, port=scene.hub.port)
    assert is_refused(found) if held else found == "listening", found
    assert attack(scene.hub, "listen", host=HOST, port=0) == "listening"


def test_it_leaves_files_for_the_next_call(scene: Scene) -> None:
    assert attack(scene.hub, "leave", name="first") == "[]"
    assert attack(scene.hub, "leave", name="second") == "[]"


def test_it_fills_the_shared_memory_of_the_machine(scene: Scene) -> None:
    result = attack(scene.hub, "fill_shared_memory", mib=80)
    if NAMESPACES in scene.names:
        assert "No space left" in result
    elif LANDLOCK in scene.names:
        assert is_refused(result)
    else:
        assert result == "filled"
        Path("/dev/shm/filled").unlink()
    assert not Path("/dev/shm/filled").exists()


def test_a_confined_tool_keeps_the_access_it_needs(scene: Scene) -> None:
    """Its own folder, temporary files, packages, a folder that the operator permits to tools."""
    assert "kept" in attack(scene.hub, "own_folder")
    assert (scene.data / "spy" / "kept").read_text() == "x"
    marked = marks(scene.folder) / "marked"
    assert attack(scene.hub, "write_file", path=str(marked)) == "written"
    assert command(scene.hub, f"cp {marked} {marked}.copy") == ""
    assert command(scene.hub, "python3 -c 'import tempfile; print(tempfile.TemporaryFile().tell())'") == "0\n"


def test_the_page_lists_the_active_protections(scene: Scene) -> None:
    status, body = scene.hub.get("/servers/spy/settings")
    assert status == 200
    text = body.decode()
    assert ("Yes, files:" in text) == (LANDLOCK in scene.names)
    assert ("Yes, processes:" in text) == (NAMESPACES in scene.names)
    assert ("Yes, memory:" in text) == (PRIVACY in scene.names)
    assert ("not protected here" in text) or set(scene.names) == set(ALL)


def test_another_process_of_the_same_user_reads_the_hubs_environment(scene: Scene) -> None:
    """A process that no tool started, such as a compromised program of the user."""
    for pid in [scene.hub.process.pid, *scene.hub.workers()]:
        run = [sys.executable, "-c", STRANGER, f"/proc/{pid}/environ"]
        found = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, timeout=BOUND, check=False)
        # Also without the protection where the hub runs as administrator, whom no other process may read.
        assert "PermissionError" in found.stderr or PRIVACY not in scene.names, found


def test_a_fork_server_that_was_stopped_is_replaced(tmp_path: Path) -> None:
    """Where the kernel does not restrict signals, the hub checks its fork server, and starts another one."""
    # One worker: the tool that stops the fork server and the tools after it run in the same worker.
    with attacked(tmp_path, (), *ONE_WORKER) as hub:
        attack(hub, "leave", name="first")
        [worker] = hub.workers()
        children = Path(f"/proc/{worker}/task/{worker}/children").read_text().split()
        [fork_server] = [pid for pid in children if Path(f"/proc/{pid}/comm").read_text().strip() == "patchbay-hosts"]
        assert attack(hub, "send_signal", pid=int(fork_server), number=int(signal.SIGSTOP)) == "sent"
        hub.line_with("does not answer; another one is started")
        until(lambda: attack(hub, "leave", name="again") == "[]", "tools run again")
        until(lambda: not Path(f"/proc/{fork_server}").exists(), "the stopped one is gone")


def test_workers_that_are_killed_in_a_row_are_replaced(tmp_path: Path) -> None:
    """The web server alone gives up at the second crash within seconds, and the hub ends."""
    with attacked(tmp_path, ()) as hub:
        for _ in range(4):
            until(lambda: hub.workers() and hub.accepts(), "a worker serves")
            worker = min(hub.workers())
            os.kill(worker, signal.SIGKILL)
            until(lambda lost=worker: lost not in hub.workers(), "it is gone")  # type: ignore[misc]
        until(lambda: hub.workers() and hub.accepts(), "a worker serves again")
        assert hub.process.poll() is None
        assert hub.end() == 0
