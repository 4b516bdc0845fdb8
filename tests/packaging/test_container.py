"""The files of the container image: what they say without a build (issue 17 item 4; ACCESS section 1)."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from patchbay.settings import SHARED, Settings
from patchbay.web.operator.exposure import check_exposure
from scripts.wheel_assets import SHIPPED
from tests.checkout import ROOT
from tests.hubs import Hub

TEXT = (ROOT / "Containerfile").read_text("utf-8").replace("\\\n", " ")
FINAL = TEXT.rpartition("FROM ")[2]
"""The last stage, which becomes the image."""

VARIABLES = dict(re.findall(r"(PATCHBAY_\w+)=(\S+)", FINAL))


def test_the_hub_of_a_container_serves_no_stranger() -> None:
    """A port that is published without an address is open to every machine."""
    settings = Settings.load(environ=VARIABLES)
    check_exposure(settings)
    assert (settings.host, settings.mode) == ("0.0.0.0", SHARED)


def test_the_health_check_asks_a_path_that_the_hub_serves_without_a_key(tmp_path: Path) -> None:
    found = re.search(r"HEALTHCHECK .*urlopen\('http://([^/']+)(/[^']*)'", FINAL)
    assert found is not None
    settings = Settings.load(environ=VARIABLES)
    assert found[1] == f"127.0.0.1:{settings.port}"
    hub = Hub(tmp_path, host=settings.host, access=settings.access)
    try:
        assert hub.client.get(found[2], headers={"Host": found[1]}).status_code == 200
        assert hub.client.get("/servers.json", headers={"Host": found[1]}).status_code == 401
    finally:
        hub.close()


def test_the_hub_runs_as_a_user_without_rights_who_owns_the_volume() -> None:
    made = re.search(r"useradd .*--uid (\d+) (\w+)", FINAL)
    assert made is not None and int(made[1]) >= 10_000
    assert re.search(rf"^USER {made[2]}$", FINAL, re.MULTILINE)
    volume = re.search(r"^VOLUME (\S+)$", FINAL, re.MULTILINE)
    assert volume is not None
    assert f"install -d -o {made[2]} -g {made[2]} {volume[1]}" in FINAL
    assert volume[1] == f"/home/{made[2]}/.local/share/patchbay"


def test_the_python_of_the_image_is_one_that_the_project_supports() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    oldest = tuple(int(part) for part in project["requires-python"].removeprefix(">=").split("."))
    images = re.findall(r"^FROM python:([\d.]+)-slim", TEXT, re.MULTILINE)
    assert len(images) == 2 and len(set(images)) == 1
    assert tuple(int(part) for part in images[0].split(".")) >= oldest


def test_the_build_gets_what_the_wheel_is_made_of_and_no_data() -> None:
    """Docker reads `.dockerignore` only; Podman and Buildah read it too, without a `.containerignore`."""
    lines = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    sent = {rule.removeprefix("!") for rule in rules if rule.startswith("!")}
    assert rules[0] == "*"
    assert sent == {"LICENSE", "README.md", "patchbay", "pyproject.toml", "requirements.txt", "scripts", *SHIPPED}
    assert not (ROOT / ".containerignore").exists()
