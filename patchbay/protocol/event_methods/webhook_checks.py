"""Whether a webhook subscription may go on, and the source of its events, as its principal may see them now.

The rights are those of the moment: a subscription outlives the request that made it. Source: SEP-3415, Authorization.
"""

from __future__ import annotations

from patchbay.access.control import AccessControl
from patchbay.catalogue.servers.server import Server
from patchbay.errors import (
    EventForbidden,
    EventNotFound,
    EventUnsupported,
    PatchbayError,
    UnavailableServer,
    UnknownServer,
)
from patchbay.occurrences.sources import EventSource
from patchbay.protocol.event_methods.requests import schemas_digest, source_of
from patchbay.protocol.webhooks.subscriptions import Webhook


def why_webhook_ended(access: AccessControl, webhook: Webhook) -> PatchbayError | None:
    """Return why a subscription has to end now; None if it goes on. Raises UnavailableServer for a broken server.

    The hub that delivers may know the server, or its new schemas, later than the hub that took the subscription.
    """
    if _find_reason(access, webhook) is None:
        return None
    access.catch_up()
    return _find_reason(access, webhook)


def _find_reason(access: AccessControl, webhook: Webhook) -> PatchbayError | None:
    if not access.is_current(webhook.principal):
        return EventForbidden("the credentials of this subscription are no longer valid", {"reason": "Access revoked"})
    server = _find(access, webhook)
    if server is None:
        return EventNotFound(f"the event type {webhook.name} is no longer here for this subscriber")
    if schemas_digest(server.events[webhook.own_name].wire) != webhook.schemas:
        return EventUnsupported(
            f"the schemas of {webhook.name} changed; list the event types and subscribe again",
            {"feature": "payloadSchema", "reason": "schema_changed"},
        )
    return None


def webhook_source(access: AccessControl, webhook: Webhook) -> EventSource:
    """Return the source of the events. Raises EventNotFound."""
    server = _find(access, webhook)
    if server is None:
        raise EventNotFound(f"the event type {webhook.name} is no longer here for this subscriber")
    return source_of(access, webhook.principal, server, webhook.own_name)


def _find(access: AccessControl, webhook: Webhook) -> Server | None:
    try:
        server = access.catalogue_for(webhook.principal).find(webhook.server)
    except UnavailableServer:
        raise  # a broken file, such as one that is being edited, ends no subscription
    except UnknownServer:
        return None
    return server if webhook.own_name in server.events else None
