"""The files in deploy/: each is parsed; its commands, settings and metrics are compared with those of the program."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from patchbay.cli.commands.patchbay import main
from patchbay.settings import SHARED, Settings
from tests.checkout import ROOT
from tests.hubs import Hub
from tests.serving.proxies import nginx_programs

DEPLOY = ROOT / "deploy"
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
KUBERNETES = list(yaml.safe_load_all((DEPLOY / "kubernetes/hub.yaml").read_text()))
ALERTS = yaml.safe_load((DEPLOY / "monitoring/alerts.yaml").read_text())
DASHBOARD = json.loads((DEPLOY / "monitoring/dashboard.json").read_text())
READ = (".yaml", ".conf", ".service", ".timer", ".md")
UNITS = sorted((DEPLOY / "systemd").iterdir())
TEXTS = {str(path.relative_to(ROOT)): path.read_text() for path in DEPLOY.rglob("*.*") if path.suffix in READ}

[DEPLOYMENT] = [one for one in KUBERNETES if one["kind"] == "Deployment"]
[CONTAINER] = DEPLOYMENT["spec"]["template"]["spec"]["containers"]


def expressions() -> Iterator[str]:
    """Every query of the alerts and the dashboard."""
    for group in ALERTS["groups"]:
        yield from (rule["expr"] for rule in group["rules"])
    for panel in DASHBOARD["panels"]:
        yield from (target["expr"] for target in panel["targets"])


def commands() -> list[str]:
    """Every `patchbay` command in deploy/, as it stands there."""
    found = [shlex.join(CONTAINER["command"])]
    for text in TEXTS.values():
        found += re.findall(
            r"(?:^|/bin/|exec |exec hub1 |[`\s])(patchbay (?:serve|key|store|doctor|audit)\b[^`\"'#\n]*)", text
        )
    return found


@pytest.mark.parametrize("text", sorted(set(commands())))
def test_each_command_is_one_of_the_program_with_options_that_it_has(text: str) -> None:
    """36.3"""
    words = shlex.split(text)[1:]
    command: click.Command = main
    context = click.Context(command)
    while isinstance(command, click.Group) and words:
        found = command.get_command(context, words[0])
        assert found is not None, words[0]
        command, words = found, words[1:]
    command.make_parser(click.Context(command)).parse_args(list(words))


def test_the_commands_of_the_files_are_found() -> None:
    """Else the test above would compare nothing."""
    assert {" ".join(text.split()[:2]) for text in commands()} >= {"patchbay serve", "patchbay key", "patchbay doctor"}


def test_the_variables_are_settings_with_values_that_they_allow(tmp_path: Path) -> None:
    """36.3: the hubs of each file are shared, and have one key."""
    kubernetes = {one["name"]: one["value"] for one in CONTAINER["env"] if "value" in one}
    kubernetes["PATCHBAY_ALLOWED_HOSTS"] = kubernetes["PATCHBAY_ALLOWED_HOSTS"].replace("$(POD_ADDRESS)", "10.0.0.7")
    for values in (COMPOSE["services"]["hub1"]["environment"], kubernetes):
        given = {name: value for name, value in values.items() if name.startswith("PATCHBAY_")}
        settings = Settings.load(environ={**given, "PATCHBAY_HOST": "0.0.0.0"})
        assert settings.mode == SHARED
        assert settings.key_file and settings.store.startswith("postgresql://hub@")
    known = {f"PATCHBAY_{name.upper()}" for name in Settings.__dataclass_fields__}
    named = {name for text in TEXTS.values() for name in re.findall(r"PATCHBAY_\w+", text)}
    assert named <= known, named - known


def test_the_metrics_of_the_alerts_and_the_dashboard_are_those_of_the_hub(tmp_path: Path) -> None:
    """36.3"""
    hub = Hub(tmp_path)
    try:
        families = list(text_string_to_metric_families(hub.client.get("/metrics").text))
        page = (ROOT / "docs/operation.md").read_text()
    finally:
        hub.close()
    known = {one.name for one in families} | {sample.name for one in families for sample in one.samples} | {"up"}
    # Counters with labels have no sample before the first one is counted.
    known |= {f"{one.name}_total" for one in families if one.type == "counter"}
    known |= {f"{one.name}_bucket" for one in families if one.type == "histogram"}
    named = {name for query in expressions() for name in re.findall(r"\b(?:patchbay|process)_\w+", query)}
    assert len(named) > 8
    assert named <= known, named - known
    for name in named:
        assert name.startswith("process_") or name.removesuffix("_bucket") in page


def test_each_alert_says_what_is_wrong_and_what_to_do() -> None:
    """36.3"""
    for rule in ALERTS["groups"][0]["rules"]:
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert rule["annotations"]["summary"] and rule["annotations"]["action"].endswith(".")


def test_the_panels_of_the_dashboard_have_their_own_places() -> None:
    """36.3"""
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in DASHBOARD["panels"]]
    assert len(set(places)) == len(places) == len({panel["id"] for panel in DASHBOARD["panels"]})


def test_the_compose_file_has_three_hubs_behind_one_balancer_and_names_what_it_uses() -> None:
    """36.3"""
    services: dict[str, Any] = COMPOSE["services"]
    for name, service in services.items():
        needed = service.get("depends_on", [])
        assert set(needed) <= set(services), name
        assert set(service.get("secrets", [])) <= set(COMPOSE["secrets"]), name
        volumes = [one.partition(":")[0] for one in service.get("volumes", [])]
        assert all(one in COMPOSE["volumes"] or (DEPLOY / one).is_file() for one in volumes), name
    upstream = re.findall(r"server (hub\d):8000", (DEPLOY / "nginx.conf").read_text())
    assert upstream == ["hub1", "hub2", "hub3"] == [name for name in services if name.startswith("hub")]
    assert "ARG EXTRAS" in (ROOT / "Containerfile").read_text()
    published = [port for service in services.values() for port in service.get("ports", [])]
    assert published == ["127.0.0.1:8000:8000"], "only this machine reaches it"


def test_nginx_accepts_its_file(tmp_path: Path) -> None:
    """36.3: the names of the hubs are those of this machine here."""
    text = re.sub(r"hub\d:8000", "127.0.0.1:8000", (DEPLOY / "nginx.conf").read_text())
    (tmp_path / "nginx.conf").write_text(f"pid {tmp_path}/nginx.pid; error_log stderr;\n{text}")
    (tmp_path / "logs").mkdir()
    program = next(path for path in nginx_programs() if path.exists())
    done = subprocess.run(
        [str(program), "-t", "-p", str(tmp_path), "-c", str(tmp_path / "nginx.conf"), "-g", "daemon off;"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def test_the_manifests_belong_together() -> None:
    """36.3"""
    labels = DEPLOYMENT["spec"]["template"]["metadata"]["labels"]
    assert DEPLOYMENT["spec"]["replicas"] == 3
    for one in KUBERNETES:
        selector = one["spec"]["selector"]
        assert selector.get("matchLabels", selector) == labels
    volumes = {one["name"] for one in DEPLOYMENT["spec"]["template"]["spec"]["volumes"]}
    assert {one["name"] for one in CONTAINER["volumeMounts"]} == volumes
    probes = [CONTAINER[name]["httpGet"]["path"] for name in ("startupProbe", "readinessProbe", "livenessProbe")]
    assert probes == ["/readyz", "/readyz", "/healthz"]
    assert DEPLOYMENT["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] > Settings().drain


def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    """36.3: with programs that this machine has, in place of those of the installation."""
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("this machine has no systemd-analyze")
    for unit in UNITS:
        text = re.sub(r"=/\S+/patchbay ", "=/bin/true ", unit.read_text()).replace("User=patchbay", "User=root")
        (tmp_path / unit.name).write_text(text)
    done = subprocess.run(
        [program, "verify", "--man=no", *(str(tmp_path / unit.name) for unit in UNITS)], capture_output=True, text=True
    )
    wrong = [line for line in done.stderr.splitlines() if str(tmp_path) in line]
    assert not wrong
