"""`events/subscribe` and `events/unsubscribe`: a webhook subscription begins, is refreshed, and ends.

Source: SEP-3415, Webhook-Based Delivery.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from patchbay.access.principals import LOCAL_ID, Principal
from patchbay.errors import EventForbidden, EventNotFound, EventsExhausted, EventUnsupported, InvalidParams
from patchbay.occurrences.records import iso_time
from patchbay.protocol.event_methods.requests import (
    EventRequest,
    read_milliseconds,
    read_request,
    schemas_digest,
    source_of,
)
from patchbay.protocol.request_context import RequestContext
from patchbay.protocol.translate import stamped
from patchbay.protocol.webhooks.sending import check_secret, check_url
from patchbay.protocol.webhooks.subscriptions import ROTATION_SECONDS, Progress, Webhook, subscription_id
from patchbay.settings import OPEN

DEFAULT_TTL, MIN_TTL_SECONDS, MAX_TTL_SECONDS = 3600.0, 60.0, 7 * 24 * 3600.0
"""Seconds for which a subscription is granted."""

OUTSIDE_TTL = DEFAULT_TTL
"""Most seconds for a person of an outside issuer: only a new token tells the hub of changed groups."""

MAX_OF_PRINCIPAL = 100
"""Live subscriptions of one principal."""


def subscribe(context: RequestContext) -> dict[str, Any]:
    """Begin or refresh a webhook subscription. A new callback URL has to echo a challenge first."""
    request = read_request(context.server, context.params, "webhook")
    url, secret = _delivery(context.params)
    _check_principal(context)
    services, sender = context.services, context.caller.wire.sender
    webhooks = services.webhooks
    now = services.catalogue.store.now()
    until = find_end(context.params, sender, now)
    id = subscription_id(sender, context.caller.wire.endpoint, request.wanted.name, request.wanted.arguments, url)
    known = webhooks.find(id)
    is_live = known is not None and known.is_live(now)
    place = services.catalogue.hub.begin_call(sender, request.server.name, False)
    try:
        if not is_live:
            owned = [one for one in webhooks.all() if one.principal.id == sender.id and one.is_live(now)]
            if len(owned) >= MAX_OF_PRINCIPAL:
                raise EventsExhausted(
                    f"this principal has {len(owned)} subscriptions; end one first", "subscriptions", MAX_OF_PRINCIPAL
                )
        if not webhooks.is_verified(sender, url):
            services.webhook_sender.verify(url, id, [secret], now)
            webhooks.note_verified(sender, url)
        truncated, cursor = False, None
        if not is_live:
            source = source_of(services.access, sender, request.server, request.own_name)
            first = source.read(request.cursor, request.wanted, 1)
            truncated, cursor = first.truncated, request.cursor if request.cursor is not None else first.cursor
    finally:
        if place is not None:
            place.release()
    before, _ = webhooks.progress(id)
    generation = (before.generation if before is not None else 0) + (not is_live)
    if not is_live:
        begun = Progress(generation, cursor)
        webhooks.advance(id, lambda old: begun)
    elif before is not None and not before.is_active:
        webhooks.restart(id)
    made = _made(context, request, id, url, secret, until, generation, now)
    saved = webhooks.save(id, lambda old: renew(old, made, now) if old is not None and old.is_live(now) else made)
    assert saved is not None
    result: dict[str, Any] = {
        "id": id,
        "refreshBefore": None if until is None else iso_time(until),
        "cursor": cursor if not is_live or before is None else before.cursor,
        "truncated": truncated,
    }
    if is_live and before is not None:
        result["deliveryStatus"] = _status(before)
    return stamped(result, context.server, context.caller.revision)


def unsubscribe(context: RequestContext) -> dict[str, Any]:
    """End the webhook subscription of this principal, URL, event and arguments. Raises EventNotFound without one."""
    delivery, name = context.params.get("delivery"), context.params.get("name")
    url = check_url(delivery.get("url") if isinstance(delivery, Mapping) else None)
    arguments = context.params.get("arguments") or {}
    if not isinstance(name, str) or not isinstance(arguments, dict):
        raise InvalidParams("params.name has to be a string and params.arguments an object")
    _check_principal(context)
    id = subscription_id(context.caller.wire.sender, context.caller.wire.endpoint, name, arguments, url)
    if not context.services.webhooks.end(id, "the subscriber ended it"):
        raise EventNotFound("there is no subscription of this event, these arguments and this URL", "subscription")
    return stamped({}, context.server, context.caller.revision)


def _check_principal(context: RequestContext) -> None:
    """Raise EventForbidden for a caller that nothing distinguishes from other callers."""
    sender = context.caller.wire.sender
    is_stranger = sender.id == LOCAL_ID and context.services.settings.mode == OPEN and not sender.is_operator
    if not sender.id or is_stranger:
        raise EventForbidden("webhooks need a principal: sign in, or use poll or push")


def _delivery(params: Mapping[str, Any]) -> tuple[str, str]:
    delivery = params.get("delivery")
    if not isinstance(delivery, Mapping):
        raise InvalidParams("params.delivery has to be an object with mode, url and secret")
    mode = delivery.get("mode", "webhook")
    if mode != "webhook":
        raise EventUnsupported(
            f"params.delivery.mode has to be webhook; it is {mode!r:.60}", {"feature": "deliveryMode", "value": mode}
        )
    return check_url(delivery.get("url")), check_secret(delivery.get("secret"))


def find_end(params: Mapping[str, Any], sender: Principal, now: float) -> float | None:
    """Return the end of the granted time, a Unix time in seconds; None for none, if the client asked for that.

    A person of an outside issuer has OUTSIDE_TTL at most. Raises InvalidParams for a `ttlMs` that is no time.
    """
    if "ttlMs" in params and params["ttlMs"] is None:
        return now + OUTSIDE_TTL if sender.issuer else None
    wanted = read_milliseconds(params, "ttlMs")
    seconds = DEFAULT_TTL if wanted is None else wanted / 1000
    return now + min(OUTSIDE_TTL if sender.issuer else MAX_TTL_SECONDS, max(MIN_TTL_SECONDS, seconds))


def _made(
    context: RequestContext,
    request: EventRequest,
    id: str,
    url: str,
    secret: str,
    until: float | None,
    generation: int,
    now: float,
) -> Webhook:
    sender, age = context.caller.wire.sender, request.wanted.max_age_ms
    return Webhook(
        id,
        sender.subject,
        sender.issuer,
        sender.name,
        tuple(sorted(sender.groups)),
        sender.agent,
        None if sender.scopes is None else tuple(sorted(sender.scopes)),
        sender.is_operator,
        request.server.name,
        request.own_name,
        request.wanted.name,
        dict(request.wanted.arguments),
        url,
        secret,
        "",
        0.0,
        until,
        schemas_digest(request.descriptor.wire),
        None if age is None else now - age / 1000,
        generation,
        credential=sender.credential,
    )


def renew(old: Webhook, fresh: Webhook, now: float) -> Webhook:
    """Return a live subscription with a new lifetime and the rights of the credentials that renew it; for a new secret,
    the old one signs too for a while.
    """
    if old.secret != fresh.secret:
        old = replace(old, secret=fresh.secret, old_secret=old.secret, old_secret_until=now + ROTATION_SECONDS)
    return replace(
        old,
        until=fresh.until,
        schemas=fresh.schemas,
        title=fresh.title,
        groups=fresh.groups,
        agent=fresh.agent,
        scopes=fresh.scopes,
        is_operator=fresh.is_operator,
        credential=fresh.credential,
    )


def _status(progress: Progress) -> dict[str, Any]:
    status = progress.status()
    last = progress.last_delivery
    status["lastDeliveryAt"] = None if last is None else iso_time(last)
    if progress.failed_since is not None:
        status["failedSince"] = iso_time(progress.failed_since)
    return status
