"""The setting `enable`: shipped servers that are off are enabled by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchbay.errors import ConfigError
from tests.hubs import Hub


def test_the_page_of_a_disabled_server_shows_how_to_enable_it(tmp_path: Path) -> None:
    hub = Hub(tmp_path / "off")
    page = hub.client.get("/servers/everything", headers={"Host": "localhost", "Accept": "text/html"})
    assert "--enable everything" in page.text
    assert hub.legacy("everything", "tools/list").status == 404
    hub.close()
    hub = Hub(tmp_path / "on", enable=("everything",))
    page = hub.client.get("/servers/everything", headers={"Host": "localhost", "Accept": "text/html"})
    assert "--enable everything" not in page.text
    assert hub.call("everything", "test_simple_text").text
    hub.close()


def test_a_name_that_is_not_a_server_is_refused_with_the_names_that_are_close(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"setting enable.*there is no server 'evrything'; did you mean everything"):
        Hub(tmp_path, enable=("evrything",))


def test_a_drop_in_that_its_configuration_switches_off_stays_off(tmp_path: Path) -> None:
    files = {"bash.py": "def execute() -> str:\n    return 'mine'\n", "bash.mcp.json": '{"enabled": false}'}
    hub = Hub(tmp_path, files, enable=("bash",))
    assert hub.legacy("bash", "tools/list").status == 404
    hub.close()
