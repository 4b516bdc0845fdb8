"""A mounted program reads the secrets of its hub and of its user, and acts as the hub, by each way that it has.

Each attack runs on hubs of root and of an ordinary user: with all protections, with each of the two alone, because a
kernel may lack the other, as root without namespaces of users, as root in a container that permits no namespaces at
all, and without protections, where it must succeed: otherwise it proves nothing.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp

import pytest

from patchbay.processes.confinement import landlock
from patchbay.processes.confinement.protections import LANDLOCK, NAMESPACES, PRIVACY
from tests.attacks.ports import ANY_ADDRESS, HOST, IN_USE, OTHER_ADDRESS
from tests.attacks.posting import post
from tests.checkout import ROOT
from tests.databases import ORDINARY_USER
from tests.ordinary_user import OWN_MOUNTS, around_ordinary_user, give_to_ordinary_user
from tests.serving.running import ONE_WORKER, Hub, running
from tests.waiting import until

pytestmark = pytest.mark.process

PROGRAM = Path(__file__).parent / "hostile_program.py"
SECRET = "s3cret-of-the-neighbour"
NO_USER_NAMESPACES = (*OWN_MOUNTS, "--user", "--map-root-user", "sh", "-c")
WITHOUT = 'echo 0 > /proc/sys/user/max_user_namespaces && exec "$@"'
CONTAINER = 'echo 0 > /proc/sys/user/max_user_namespaces && exec setpriv --bounding-set=-all --inh-caps=-all "$@"'


@dataclass(frozen=True)
class Way:
    """How a hub runs: the command line around it, the setting `protections`, and the protections that hold then."""

    name: str
    around: tuple[str, ...]
    wanted: tuple[str, ...]
    names: tuple[str, ...]


BOTH = (LANDLOCK, NAMESPACES)
WAYS = [
    Way("user", ORDINARY_USER, (*BOTH, PRIVACY), BOTH),
    Way("user-landlock", ORDINARY_USER, (LANDLOCK, PRIVACY), (LANDLOCK,)),
    Way("user-namespaces", ORDINARY_USER, (NAMESPACES, PRIVACY), (NAMESPACES,)),
    Way("user-nothing", ORDINARY_USER, (), ()),
    Way("root", OWN_MOUNTS, (*BOTH, PRIVACY), BOTH),
    Way("root-nothing", OWN_MOUNTS, (), ()),
    Way("root-without-user-namespaces", (*NO_USER_NAMESPACES, WITHOUT, "sh"), (*BOTH, PRIVACY), BOTH),
    Way("root-in-a-container", (*NO_USER_NAMESPACES, CONTAINER, "sh"), (*BOTH, PRIVACY), (LANDLOCK,)),
]
if os.geteuid() != 0:
    WAYS = [Way(way.name, (), way.wanted, way.names) for way in WAYS if way.name.startswith("user")]


def is_ordinary(way: Way) -> bool:
    """Whether root runs the hub of an ordinary user."""
    return way.around[:1] == ORDINARY_USER[:1]


class Scene:
    """A hub under attack by its mounted program, its folder, and its active protections."""

    def __init__(self, hub: Hub, folder: Path, way: Way) -> None:
        self.hub, self.folder, self.way, self.names = hub, folder, way, way.names
        self.data, self.home = folder / "data", folder / "home"

    def attack(self, tool: str, *values: object, server: str = "hostile") -> str:
        """Return the text of the answer of a tool of the program."""
        arguments = {str(number): value for number, value in enumerate(values)}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
        found = post(self.hub, f"/mcp/{server}", message).messages[-1]
        return str(found["result"]["content"][0]["text"])

    def is_refused(self, tool: str, *values: object) -> bool:
        """Whether an attack fails."""
        found = self.attack(tool, *values)
        assert "there is no tool" not in found, found
        return found.startswith("refused: ")

    def pids(self) -> list[int]:
        """Return the process ids of the supervisor and of the workers."""
        return [self.hub.process.pid, *self.hub.workers()]


def _make_home(folder: Path) -> None:
    for name in (".ssh/id_ed25519", ".aws/credentials", ".config/gh/hosts.yml", ".npmrc", ".bash_history", "notes/a"):
        place = folder / "home" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("_authToken=secret")
    for name in (".npm/_cacache/index", ".cache/uv/wheel"):
        place = folder / "home" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("shared")


def _write_mounts(folder: Path) -> None:
    servers = folder / "servers"
    servers.mkdir()
    address = f"mcp+stdio:{sys.executable} {PROGRAM}"
    mounts: dict[str, dict[str, object]] = {
        "hostile": {"memory": 256},
        "neighbour": {"environment": {"NEIGHBOUR_TOKEN": "${NEIGHBOUR_TOKEN}"}},
    }
    for name, fields in mounts.items():
        (servers / f"{name}.json").write_text(json.dumps({"kind": "upstream", "address": address, **fields}))


@pytest.fixture(scope="module", params=WAYS, ids=lambda way: way.name)
def scene(request: pytest.FixtureRequest) -> Iterator[Scene]:
    way: Way = request.param
    folder = Path(mkdtemp(prefix="attacked-"))
    try:
        _make_home(folder)
        _write_mounts(folder)
        if is_ordinary(way):
            give_to_ordinary_user(folder)
        environ = {"PATH": os.environ["PATH"], "HOME": str(folder / "home"), "NEIGHBOUR_TOKEN": SECRET}
        around, more = around_ordinary_user(folder) if is_ordinary(way) else (way.around, {})
        environ |= more
        wanted = ("--protections", ",".join(way.wanted))
        with running(folder, *ONE_WORKER, *wanted, around=around, environ=environ) as hub:
            found = Scene(hub, folder, way)
            for name in ("hostile", "neighbour"):
                until(lambda name=name: found.attack("processes", server=name).isdecimal())  # type: ignore[misc]
            yield found
            mark = f"mark-of-{folder.name}"
            assert found.attack("leave", mark) == "left"
            assert hub.end() == 0
            until(lambda: not _marked(mark))
    finally:
        shutil.rmtree(folder)


def _marked(mark: str) -> list[str]:
    """Return the processes with a mark in their command line."""
    found = []
    for one in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (one / "cmdline").read_bytes():
                found.append(one.name)
        except OSError:
            continue
    return found


def test_it_reads_the_key_the_token_and_the_database(scene: Scene) -> None:
    secrets = [one for one in scene.data.iterdir() if one.is_file()]
    assert len(secrets) > 2
    for path in secrets:
        assert scene.is_refused("read", str(path)) == bool(scene.names), path
        assert scene.is_refused("escape_by_root", str(path)) == bool(scene.names), path


def test_it_reads_the_private_places_of_the_user(scene: Scene) -> None:
    for name in (".ssh/id_ed25519", ".aws/credentials", ".config/gh/hosts.yml", ".npmrc", ".bash_history"):
        found = scene.attack("read", str(scene.home / name))
        assert (b"secret".hex() not in found) == bool(scene.names), (name, found)


def test_it_plants_a_server_and_changes_files_of_the_hub_and_of_the_user(scene: Scene) -> None:
    places = [scene.folder / "servers" / "planted.txt", scene.home / "notes" / "planted", scene.data / "planted"]
    if os.geteuid() == 0 and not is_ordinary(scene.way):
        places.append(ROOT / "patchbay" / "planted.txt")
    for path in places:
        scene.attack("write", str(path))
        assert path.exists() == (not scene.names), path
        path.unlink(missing_ok=True)


def test_it_changes_packages_that_others_run(scene: Scene) -> None:
    for name in (".npm/_cacache/index", ".cache/uv/wheel"):
        path = scene.home / name
        scene.attack("write", str(path))
        assert (path.read_text() == "shared") == bool(scene.names), path
        path.write_text("shared")


def test_it_reads_the_environments_of_the_hub_and_of_its_neighbour(scene: Scene) -> None:
    assert scene.is_refused("search_environments", f"NEIGHBOUR_TOKEN={SECRET}") == bool(scene.names)


def test_it_sees_processes_that_are_not_its_own(scene: Scene) -> None:
    assert (int(scene.attack("processes")) < 5) == (NAMESPACES in scene.names)


def test_it_signals_and_debugs_the_hub(scene: Scene) -> None:
    holds = NAMESPACES in scene.names or (LANDLOCK in scene.names and landlock.version() >= landlock.SCOPE_ABI)
    for pid in scene.pids():
        assert scene.is_refused("send_signal", pid) == holds
        if scene.names:
            assert scene.is_refused("attach", pid)


def test_it_reaches_control_sockets(scene: Scene) -> None:
    """Where agents of ssh and tmux listen."""
    folder = Path(mkdtemp(prefix="ssh-"))
    try:
        with socket.socket(socket.AF_UNIX) as agent, socket.socket(socket.AF_UNIX) as abstract:
            agent.bind(str(folder / "agent.1"))
            abstract.bind(f"\0{folder}")
            agent.listen()
            abstract.listen()
            for one in (folder, folder / "agent.1"):
                one.chmod(0o777)
            assert scene.is_refused("connect", str(folder / "agent.1")) == (NAMESPACES in scene.names)
            held = LANDLOCK in scene.names and landlock.version() >= landlock.SCOPE_ABI
            assert scene.is_refused("connect", f"@{folder}") == held
    finally:
        shutil.rmtree(folder)


def test_it_lists_the_services_of_the_machine(scene: Scene) -> None:
    """The sockets of docker, D-Bus and of agents are in /run."""
    there = {one.name for one in Path("/run").iterdir()} - {"systemd", "postgresql", "redis", "mysqld", "nscd"}
    found = set(scene.attack("names", "/run").split())
    assert bool(found & there) == (NAMESPACES not in scene.names)


def test_it_reads_temporary_files_of_others(scene: Scene) -> None:
    file = Path(mkdtemp(prefix="other-")) / "file"
    try:
        file.parent.chmod(0o755)
        file.write_text("of another program")
        if scene.names != (LANDLOCK,):  # which lists what may be read when the program starts: what is new is not there
            assert scene.is_refused("read", str(file)) == (NAMESPACES in scene.names)
    finally:
        shutil.rmtree(file.parent)


def test_it_listens_on_the_port_of_the_hub(scene: Scene) -> None:
    """The hub shares its port with no program; Landlock refuses the same port of other addresses of the machine too."""
    held = LANDLOCK in scene.names and landlock.version() >= landlock.NETWORK_ABI
    for host in (HOST, ANY_ADDRESS):
        found = scene.attack("listen", host, scene.hub.port)
        assert found.startswith("refused: ") and (IN_USE in found) == (not held), (host, found)
    assert scene.is_refused("listen", OTHER_ADDRESS, scene.hub.port) == held


def test_it_removes_what_hides_the_data_of_the_hub(scene: Scene) -> None:
    assert scene.is_refused("uncover", str(scene.data)) == bool(scene.names)


def test_it_takes_the_memory_of_the_machine(scene: Scene) -> None:
    assert scene.is_refused("take_memory", 512) == bool(scene.names)
    assert scene.attack("take_memory", 64) == str(64 << 20)


def test_it_works_in_a_folder_of_its_own(scene: Scene) -> None:
    """Its folder, its home and its /tmp are its own, and it may change them."""
    found = json.loads(scene.attack("environment"))
    own = next((scene.data / "programs").glob("hostile-*"), scene.data)
    assert (found["cwd"] == str(own)) == (found["HOME"] == str(own)) == bool(scene.names)
    if scene.names:
        for name in (own / "kept", Path(found["TMPDIR"]) / "passing"):
            assert scene.attack("write", str(name)) == "written"
        assert (own / "kept").exists()
        assert not (Path("/tmp") / "passing").exists()
