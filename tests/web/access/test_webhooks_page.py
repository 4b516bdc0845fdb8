"""`/webhooks`: what the operator sees of webhooks, and the buttons that send again and end one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.hubs import Hub
from tests.protocol.events.test_emitting import SOURCE, report
from tests.protocol.webhooks.receiver import HOST, SECRET, Receiver
from tests.protocol.webhooks.test_webhooks import subscribe, titles
from tests.waiting import until


@pytest.fixture
def hub(tmp_path: Path, receiver: Receiver) -> Iterator[Hub]:
    one = Hub(tmp_path, {"desk.py": SOURCE}, webhook_hosts=(HOST,)).log_in()
    yield one
    one.close()


def page(hub: Hub) -> str:
    return hub.client.get("/webhooks", headers={"Accept": "text/html"}).text


def press(hub: Hub, button: str) -> None:
    shown = page(hub)
    fields = {name: re.search(f'name="{name}" value="([^"]+)"', shown) for name in ("csrf", "id")}
    form = {name: found[1] for name, found in fields.items() if found} | {"do": button}
    assert hub.client.post("/webhooks", data=form).status_code == 303


def test_a_paused_webhook_says_why_and_a_button_sends_again_without_losing_an_event(
    hub: Hub, receiver: Receiver
) -> None:
    """37.1"""
    id = subscribe(hub, f"{receiver.url}?token=confidential")["id"]
    receiver.status = 500
    for title in ("first", "second"):
        report(hub, title=title)
    webhooks: Any = hub.app.parts.dispatcher.services.webhooks
    until(lambda: webhooks.progress(id)[0].attempts > 0, "a failure")
    assert "retrying" in page(hub) and "http_5xx" in page(hub)
    assert "confidential" not in page(hub) and SECRET not in page(hub)
    receiver.status = 200
    press(hub, "send")
    until(lambda: titles(receiver) == ["first", "second"], "the deliveries")
    press(hub, "end")
    assert "ended: the operator ended it" in page(hub)


def test_only_an_administrator_sees_webhooks(tmp_path: Path) -> None:
    hub = Hub(tmp_path, {"desk.py": SOURCE}, access="shared")
    try:
        assert hub.client.get("/webhooks.json").status_code == 401
        assert hub.client.post("/webhooks", data={"id": "x", "do": "end"}).status_code in (401, 403)
    finally:
        hub.close()
