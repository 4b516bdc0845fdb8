"""A package without a wheel runs its build script when a hub with `--packages any` installs it.

The build attacks the hub by each way that it has, and puts what it got into the wheel that it makes. It runs with all
protections, with each of the two alone, and without, where the attacks must succeed: otherwise they prove nothing.
"""

from __future__ import annotations

import json
import os
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from patchbay.environments.environments import PackageEnvironments
from patchbay.environments.requirements import Requirements
from patchbay.processes.confinement.programs import ProgramPlaces
from patchbay.processes.confinement.protections import LANDLOCK, NAMESPACES
from tests.waiting import until

pytestmark = pytest.mark.process

SECRET = "s3cret-of-the-index"

BACKEND = '''
import json
import os
import zipfile
from pathlib import Path

HOME, DATA, SERVERS, OTHER = map(Path, json.loads(PLACES))


def attempt(action):
    try:
        return action()
    except OSError as problem:
        return f"refused: {problem.strerror}"


def search_environments(text):
    found = []
    for place in Path("/proc").glob("[0-9]*/environ"):
        try:
            found += [place.parent.name] if text.encode() in place.read_bytes() else []
        except OSError:
            continue
    return " ".join(found) or "refused: nothing found"


def lead_elsewhere():
    """Put links where the hub writes after the build: beside this environment, and in it."""
    for work in Path(os.environ["UV_CACHE_DIR"]).parent, *DATA.glob("@environments/*.new-*"):
        for name in ("environment/environment.json", "lock.txt"):
            place = work / name
            if place.parent.is_dir():
                place.unlink(missing_ok=True)
                place.symlink_to(OTHER)
    return "led"


def build_wheel(folder, settings=None, metadata=None):
    found = {
        "token": attempt(lambda: (DATA / "operator-token").read_text()),
        "ssh": attempt(lambda: (HOME / ".ssh" / "id_ed25519").read_text()),
        "netrc": attempt(lambda: (HOME / ".netrc").read_text()),
        "plant": attempt(lambda: str((SERVERS / "planted.py").write_text("1"))),
        "cache": attempt(lambda: str((DATA / "@environments" / "cache" / "planted").write_text("1"))),
        "home": attempt(lambda: str((HOME / "planted").write_text("1"))),
        "variables": " ".join(os.environ.values()),
        "environments": search_environments(SECRET),
        "led": attempt(lead_elsewhere),
    }
    name = "pk_spy-1.0"
    with zipfile.ZipFile(Path(folder, f"{name}-py3-none-any.whl"), "w") as wheel:
        wheel.writestr("pk_spy.json", json.dumps(found))
        wheel.writestr(f"{name}.dist-info/METADATA", "Metadata-Version: 2.1\\nName: pk-spy\\nVersion: 1.0\\n")
        wheel.writestr(f"{name}.dist-info/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(f"{name}.dist-info/RECORD", "")
    return f"{name}-py3-none-any.whl"
'''

BOTH = (LANDLOCK, NAMESPACES)


@dataclass
class Scene:
    """A machine whose hub has installed a package with a hostile build; `found` is what the build got."""

    folder: Path
    names: tuple[str, ...]
    found: dict[str, str]

    def is_refused(self, what: str) -> bool:
        """Whether one attack of the build failed."""
        return self.found[what].startswith("refused: ")


def _write_source(folder: Path, places: list[Path]) -> None:
    project = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    project += '[project]\nname = "pk-spy"\nversion = "1.0"\n'
    given = f"PLACES, SECRET = {json.dumps(json.dumps([str(one) for one in places]))}, {SECRET!r}\n"
    texts = {"pyproject.toml": project, "backend.py": given + BACKEND, "PKG-INFO": "Name: pk-spy\nVersion: 1.0\n"}
    folder.mkdir()
    with tarfile.open(folder / "pk_spy-1.0.tar.gz", "w:gz") as archive:
        for name, text in texts.items():
            row = tarfile.TarInfo(f"pk_spy-1.0/{name}")
            row.size = len(text)
            archive.addfile(row, BytesIO(text.encode()))


@pytest.fixture(scope="module", params=[BOTH, (LANDLOCK,), (NAMESPACES,), ()], ids=lambda names: "-".join(names))
def scene(request: pytest.FixtureRequest) -> Iterator[Scene]:
    with TemporaryDirectory(prefix="building-") as name:
        folder = Path(name)
        home, data, servers, other = (folder / each for each in ("home", "data", "servers", "other"))
        for place, text in (
            (home / ".ssh" / "id_ed25519", "private"),
            (home / ".netrc", f"machine index.example login me password {SECRET}"),
            (data / "operator-token", "token"),
            (servers / "own.py", ""),
            (other, "of the user"),
        ):
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)
        _write_source(folder / "sources", [home, data, servers, other])
        environ = {
            "PATH": os.environ["PATH"], "HOME": str(home), "UV_FIND_LINKS": str(folder / "sources"),
            "UV_DEFAULT_INDEX": "file:///nowhere/", "UV_INDEX_OWN_PASSWORD": SECRET,
        }  # fmt: skip
        wanted: tuple[str, ...] = request.param
        places = ProgramPlaces(data / "programs", (data, servers), wanted=wanted)
        one = PackageEnvironments(data, environ, "any", places).find(Requirements(("pk-spy",)))
        one.start()
        until(lambda: one.state in ("ready", "failed"), lambda: one.sentence)
        assert one.state == "ready" and one.site is not None, one.sentence
        found: dict[str, Any] = json.loads((one.site / "pk_spy.json").read_text())
        yield Scene(folder, wanted, found)


def test_it_reads_no_secret_of_the_hub_and_of_the_user(scene: Scene) -> None:
    for what in ("token", "ssh", "netrc"):
        assert scene.is_refused(what) == bool(scene.names), (what, scene.found)


def test_it_plants_no_server_and_changes_nothing_but_the_folder_of_its_build(scene: Scene) -> None:
    for what in ("plant", "cache", "home"):
        assert scene.is_refused(what) == bool(scene.names), (what, scene.found)
    assert (scene.folder / "servers" / "planted.py").exists() == (not scene.names)


def test_it_gets_no_credentials_of_the_index(scene: Scene) -> None:
    """Also where nothing confines it: they are not in its environment."""
    assert SECRET not in scene.found["variables"]
    assert scene.is_refused("environments")


def test_it_leads_the_hub_to_no_other_file(scene: Scene) -> None:
    """The hub writes into the environment after the build, and follows no link of it."""
    assert scene.found["led"] == "led"
    assert (scene.folder / "other").read_text() == "of the user"
