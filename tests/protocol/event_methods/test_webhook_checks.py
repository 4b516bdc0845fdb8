"""When the hub that delivers ends a webhook subscription: not because it knows a server later than another hub."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from patchbay.access.control import AccessControl
from patchbay.catalogue.catalogue import Catalogue
from patchbay.protocol.event_methods.requests import schemas_digest
from patchbay.protocol.event_methods.webhook_checks import why_webhook_ended
from patchbay.protocol.webhooks.subscriptions import Webhook
from tests.hubs import Hub
from tests.protocol.events.test_emitting import EVENT, SOURCE
from tests.waiting import until

OTHER = SOURCE.replace("title: str\n", "title: str\n    place: str\n", 1)


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    one = Hub(tmp_path)
    yield one
    one.close()


def late(hub: Hub) -> AccessControl:
    """Return the access control of a second process on the store of a hub, which follows no changes by itself."""
    return AccessControl(Catalogue(hub.catalogue.store, hub.settings, watch=False))


def webhook(schemas: str) -> Webhook:
    return Webhook(
        *(
            "sub",
            "key:ann",
            "",
            "ann",
            (),
            "",
            None,
            False,
            "desk",
            EVENT,
            EVENT,
            {},
            "https://127.0.0.1/",
            "s",
            "",
            0.0,
        ),
        *(None, schemas, None, 1),
    )


def save(hub: Hub, source: str) -> str:
    """Save the server of the event type; return the digest of its schemas once the hub serves it."""

    def schemas() -> str:
        server = hub.catalogue.find_any("desk")
        return "" if server is None else schemas_digest(server.events[EVENT].wire)

    before = schemas()
    (hub.servers / "desk.py").write_text(source)
    return str(until(lambda: (now := schemas()) != before and now, "the new schemas"))


def test_a_subscription_goes_on_where_its_server_is_not_known_yet(hub: Hub) -> None:
    access = late(hub)
    wanted = webhook(save(hub, SOURCE))
    assert why_webhook_ended(access, wanted) is None


def test_a_subscription_goes_on_where_the_new_schemas_of_its_event_are_not_known_yet(hub: Hub) -> None:
    save(hub, SOURCE)
    access = late(hub)
    wanted = webhook(save(hub, OTHER))
    assert why_webhook_ended(access, wanted) is None


def test_a_subscription_ends_with_its_event_type_and_with_other_schemas(hub: Hub) -> None:
    wanted = webhook(save(hub, SOURCE))
    save(hub, OTHER)
    changed = why_webhook_ended(late(hub), wanted)
    assert changed is not None and "schemas of incident.opened changed" in changed.message
    (hub.servers / "desk.py").unlink()
    until(lambda: hub.catalogue.find_any("desk") is None, "the server is gone")
    gone = why_webhook_ended(late(hub), wanted)
    assert gone is not None and "no longer here" in gone.message
