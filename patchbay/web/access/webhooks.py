"""`/webhooks`: the webhook subscriptions of events, how far each is delivered, and the buttons of an administrator."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from flask import Blueprint, Response

from patchbay.errors import InvalidParams
from patchbay.protocol.webhooks.subscriptions import Progress, Webhook, Webhooks
from patchbay.web.operator.login import read_form, redirect_to
from patchbay.web.site.answers import render_answer
from patchbay.web.site.site import Site

PAGE = "/webhooks"
SEND, END = "send", "end"


class _WebhooksViews:
    def __init__(self, site: Site, webhooks: Webhooks) -> None:
        self._site = site
        self._webhooks = webhooks

    def show(self) -> Response:
        """GET: all subscriptions. Raises NotOperator."""
        self._site.operators.check_operator()
        now = self._webhooks.store.now()
        found = [_values(one, self._webhooks.progress(one.id)[0], now) for one in self._webhooks.all()]
        response = render_answer(
            self._site, "webhooks.html", "webhooks", {"webhooks": found}, csrf=self._site.operators.csrf()
        )
        response.headers["Cache-Control"] = "no-store"
        return response

    def change(self) -> Response:
        """POST: begin again what is paused (`do=send`), or end a subscription (`do=end`).

        Raises Refused, NotOperator, InvalidParams.
        """
        fields = read_form(self._site.settings.body_limit)
        self._site.operators.check_use(fields)
        id, do = fields.get("id", ""), fields.get("do", "")
        if self._webhooks.find(id) is None:
            raise InvalidParams(f"there is no webhook {id!r:.80}; the page /webhooks lists them")
        if do == SEND:
            self._webhooks.restart(id)
        elif do == END:
            self._webhooks.end(id, "the operator ended it")
        else:
            raise InvalidParams(f"do must be {SEND} or {END}; it is {do!r:.60}")
        return redirect_to(PAGE)


def _values(webhook: Webhook, progress: Progress | None, now: float) -> dict[str, Any]:
    """A subscription as a JSON object. Its secret is never shown, nor a query, which may have one."""
    parts = urlsplit(webhook.url)
    if webhook.ended:
        state = f"ended: {webhook.ended}"
    elif not webhook.is_live(now):
        state = "expired"
    elif progress is not None and not progress.is_active:
        state = "paused"
    else:
        state = "retrying" if progress is not None and progress.attempts else "delivering"
    return {
        "id": webhook.id,
        "principal": webhook.principal.id,
        "event": webhook.name,
        "server": webhook.server,
        "url": parts._replace(query="...").geturl() if parts.query else webhook.url,
        "state": state,
        "live": webhook.is_live(now),
        "delivered": progress.delivered if progress is not None else 0,
        "attempts": progress.attempts if progress is not None else 0,
        "error": progress.last_error if progress is not None else None,
        "until": webhook.until,
        "last_delivery": progress.last_delivery if progress is not None else None,
    }


def webhooks_blueprint(site: Site, webhooks: Webhooks) -> Blueprint:
    """The route `/webhooks`."""
    views = _WebhooksViews(site, webhooks)
    pages = Blueprint("webhooks", __name__)
    pages.add_url_rule(PAGE, "show", views.show)
    pages.add_url_rule(PAGE, "change", views.change, methods=["POST"])
    return pages
