"""The wheel, installed into an empty environment on another path, is a whole hub."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.checkout import ROOT
from tests.environments.wheels import block, make_wheel
from tests.serving.running import Hub
from tests.waiting import BOUND, until

pytestmark = pytest.mark.process

UV = str(Path(sys.executable).with_name("uv"))
CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "echo", "arguments": {"message": "hi"}}}


@dataclass(frozen=True)
class Installation:
    """An environment that has the wheel, a home for its user, and a folder to work in."""

    folder: Path

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def own_folder(self) -> Path:
        """Where an installed hub keeps its files."""
        return self.home / ".local" / "share" / "patchbay"

    def environment(self) -> dict[str, str]:
        """An environment with nothing but PATH and HOME."""
        return {"PATH": f"{self.folder / 'env' / 'bin'}:/usr/bin:/bin", "HOME": str(self.home), "LANG": "C.UTF-8"}

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start `patchbay` with these words, in an empty working folder."""
        return subprocess.Popen(
            [str(self.folder / "env" / "bin" / "patchbay"), *words],
            cwd=self.folder / "work",
            env=self.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *words: str) -> str:
        """Run `patchbay` with these words; its standard output. It must succeed."""
        with self.start(*words) as process:
            out, err = process.communicate(timeout=BOUND)
        assert process.returncode == 0, f"{words}: {out}{err}"
        return out


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist of this checkout, and the wheel that was made from that sdist."""
    folder = tmp_path_factory.mktemp("dist")
    command = [UV, "build", "--quiet", "--no-build-isolation", "--python", sys.executable, "--out-dir", str(folder)]
    subprocess.run([*command, str(ROOT)], check=True, timeout=BOUND)
    return folder


def wheel_in(folder: Path) -> Path:
    """The only wheel in a folder."""
    [wheel] = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """The wheel in an environment of its own, with the exact versions of requirements.txt."""
    folder = tmp_path_factory.mktemp("elsewhere")
    (folder / "work").mkdir()
    (folder / "home").mkdir()
    subprocess.run([UV, "venv", "--quiet", "--python", sys.executable, str(folder / "env")], check=True)
    python = str(folder / "env" / "bin" / "python")
    command = [UV, "pip", "install", "--quiet", "--python", python, "--constraints", str(ROOT / "requirements.txt")]
    subprocess.run([*command, str(wheel_in(built))], check=True, timeout=5 * BOUND)
    return Installation(folder)


@pytest.fixture(scope="module")
def hub(installed: Installation) -> Iterator[Hub]:
    """`patchbay serve --port 0` from the installed wheel."""
    with installed.start("serve", "--port", "0") as process:
        try:
            yield Hub(process, installed.own_folder)
        finally:
            process.terminate()
            process.wait(BOUND)


def call(hub: Hub, server: str, message: object) -> dict[str, object]:
    """The answer to one message."""
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    url = f"http://127.0.0.1:{hub.port}/mcp/{server}"
    request = urllib.request.Request(url, json.dumps(message).encode(), headers)
    with urllib.request.urlopen(request, timeout=BOUND) as answer:
        text = answer.read().decode()
    # A call that takes long, on a busy machine, is answered by an event stream with one message.
    text = next((line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")), text)
    found: dict[str, object] = json.loads(text)
    return found


def test_the_wheel_holds_the_package_and_its_assets_and_no_other_top_level_module(built: Path) -> None:
    with zipfile.ZipFile(wheel_in(built)) as wheel:
        names = set(wheel.namelist())
    assert {name.split("/")[0].split("-")[0] for name in names} == {"patchbay", "patchbay_hub"}
    assert wheel_in(built).name.startswith("patchbay_hub-")
    assert "patchbay/py.typed" in names
    for folder in ("static", "templates", "reference_templates"):
        shipped = subprocess.run(["git", "ls-files", folder], cwd=ROOT, capture_output=True, text=True, check=True)
        assert {f"patchbay/assets/{path}" for path in shipped.stdout.split()} - names == set()


def test_a_wheel_built_from_the_checkout_equals_the_one_built_from_the_sdist(built: Path, tmp_path: Path) -> None:
    command = [UV, "build", "--quiet", "--no-build-isolation", "--wheel", "--python", sys.executable]
    subprocess.run([*command, "--out-dir", str(tmp_path), str(ROOT)], check=True, timeout=BOUND)
    with zipfile.ZipFile(wheel_in(tmp_path)) as ours, zipfile.ZipFile(wheel_in(built)) as theirs:
        assert {row.filename: row.CRC for row in ours.infolist()} == {
            row.filename: row.CRC for row in theirs.infolist()
        }


def test_an_installed_hub_answers_calls_and_shows_pages_and_styles(hub: Hub) -> None:
    assert call(hub, "echo", CALL)["result"]
    for path in (
        "/",
        "/mcp",
        "/servers/echo/source",
        "/servers/echo",
        "/static/style.css",
        "/static/try/main.js",
        "/history",
    ):
        assert hub.get(path)[0] == 200, path


def test_an_installed_hub_serves_a_file_dropped_into_its_home(hub: Hub, installed: Installation) -> None:
    (installed.own_folder / "servers" / "sums.py").write_text("def add(a: int, b: int) -> int:\n    return a + b\n")
    until(lambda: hub.get("/servers/sums")[0] == 200, "the server sums")


def test_the_commands_agree_on_the_home_from_any_folder(hub: Hub, installed: Installation) -> None:
    mounted = installed.run("mount", "again", f"http://127.0.0.1:{hub.port}/mcp/echo")
    assert str(installed.own_folder / "servers" / "again.json") in mounted
    until(lambda: hub.get("/servers/again")[0] == 200, "the mount")
    values = {row["name"]: row["value"] for row in json.loads(installed.run("settings", "--json"))}
    assert values["data"] == str(installed.own_folder / "data")
    assert values["servers"] == str(installed.own_folder / "servers")
    assert '"hi\\n"' in installed.run("call", "/mcp/echo", "echo", "message=hi")
    installed.run("unmount", "again")


def test_an_installed_hub_writes_nothing_outside_its_home(hub: Hub, installed: Installation) -> None:
    assert call(hub, "echo", CALL)["result"]
    assert list((installed.folder / "work").iterdir()) == []
    outside = [
        path for path in installed.home.rglob("*") if path.is_file() and installed.own_folder not in path.parents
    ]
    assert outside == []


def test_a_command_that_only_reads_creates_nothing(installed: Installation, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    program = str(installed.folder / "env" / "bin" / "patchbay")
    for words in (["settings"], ["inspect", "/mcp/echo"], ["--help"]):
        environment = {**installed.environment(), "HOME": str(home)}
        subprocess.run([program, *words], cwd=tmp_path, env=environment, check=True, capture_output=True, timeout=BOUND)
    assert list(home.iterdir()) == []


def test_uvx_runs_the_program_from_the_wheel(built: Path, installed: Installation) -> None:
    environment = {name: os.environ[name] for name in os.environ if name.startswith(("PATH", "HOME", "UV_", "SSL_"))}
    command = [str(Path(UV).with_name("uvx")), "--quiet", "--python", sys.executable]
    command += [
        "--constraints",
        str(ROOT / "requirements.txt"),
        "--from",
        str(wheel_in(built)),
        "patchbay",
        "--version",
    ]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=5 * BOUND, check=True)
    assert done.stdout.startswith("patchbay ")


def test_an_installed_hub_installs_the_packages_that_a_definition_requires(hub: Hub, tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, "pk-wheel", "4.2")
    source = (
        block(f"pk-wheel @ {wheel.as_uri()}") + "import pk_wheel\ndef main() -> str:\n    return pk_wheel.version\n"
    )
    servers = hub.folder / "servers"
    servers.mkdir(exist_ok=True)
    (servers / "packaged.py").write_text(source)
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "packaged", "arguments": {}}}

    def text() -> str:
        with suppress(urllib.error.HTTPError):  # the hub has not read the file yet
            result = call(hub, "packaged", message).get("result")
            return str(result["content"][0]["text"]) if isinstance(result, dict) else ""
        return "not served yet"

    until(lambda: text() == "4.2", text)
