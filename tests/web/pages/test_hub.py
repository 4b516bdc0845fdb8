"""The page about the hub itself: its settings with their values and sources, and the way to each other page."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from patchbay.settings import Settings
from patchbay.web.pages.hub import describe_settings
from tests.hubs import Hub
from tests.web.browsing import read


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    hub = Hub(tmp_path_factory.mktemp("hub"), {}, registry="https://me:hunter2@registry.example").log_in()
    yield hub
    hub.close()


def test_each_setting_has_its_value_its_default_its_source_and_its_sentence() -> None:
    settings = Settings.load({"port": "9000"}, {"PATCHBAY_TIMEOUT": "60", "PATCHBAY_WORKERS": "1"})
    found = {row["name"]: row for row in describe_settings(settings)}
    assert found.keys() == {row.name for row in Settings.rows()}
    assert found["port"] == {
        **{"name": "port", "value": "9000", "default": "8000", "unit": "", "help": "Port to listen on."},
        **{"option": "--port", "variable": "PATCHBAY_PORT", "source": "--port", "is_changed": True},
    }
    assert (found["timeout"]["value"], found["timeout"]["source"]) == ("60", "PATCHBAY_TIMEOUT")
    assert (found["workers"]["source"], found["workers"]["is_changed"]) == ("PATCHBAY_WORKERS", True)
    assert (found["host"]["source"], found["host"]["is_changed"]) == ("", False)


def test_the_page_has_every_setting_and_leads_to_every_page_of_the_hub(hub: Hub) -> None:
    shown = read(hub, "/settings")
    for row in Settings.rows():
        assert f"<code>--{row.name.replace('_', '-')}</code>" in shown
    parts = shown.partition('class="found parts"')[2].partition("</ul>")[0]
    for page in ("variables", "secrets", "history", "pins", "schedules", "webhooks", "nodes", "registry", "inspect"):
        assert f'href="/{page}"' in parts
        read(hub, f"/{page}")


def test_the_page_shows_no_secret(hub: Hub) -> None:
    for path in ("/settings", "/settings.json"):
        assert "hunter2" not in hub.client.get(path).text
    assert "https://…@registry.example" in read(hub, "/settings")


def test_only_the_operator_sees_the_settings(hub: Hub) -> None:
    stranger = hub.app.test_client()
    for path in ("/settings", "/settings.json"):
        assert stranger.get(path).status_code == 401
    assert 'href="/settings"' not in stranger.get("/", headers={"Accept": "text/html"}).text


def test_the_hub_section_begins_with_the_settings(hub: Hub) -> None:
    shown = read(hub, "/variables")
    assert '<a href="/settings">Settings</a>' in shown.partition('aria-label="Hub"')[2]
