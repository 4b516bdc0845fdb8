"""The rows of the table of routes for administrators: grants, keys, approvals, audit, and pins."""

from __future__ import annotations

from patchbay.client.registry.choices import WAYS
from patchbay.web.openapi.route_table import Query, Route, form_body, form_fields, schema_ref

JSON = "application/json"
HTML = "text/html"
UPLOAD = "multipart/form-data"

ACCESS_PAGES = (
    Route(
        "GET",
        "/access",
        "The grants, and what a principal sees.",
        schema_ref("Access"),
        page=True,
        query=(
            Query("as", "The id of a principal to preview."),
            Query("groups", "Its groups, comma-separated."),
            Query("who", "The name whose rights the table shows."),
            Query("find", "A part of the names of servers and tools that the table shows."),
            Query("open", "The server whose tools the table shows."),
            Query("page", "The page of servers of the table, from 1."),
        ),
        operator=True,
    ),
    Route(
        "GET",
        "/audit",
        "The state of verification of the audit chain, and its last rows.",
        schema_ref("Audit"),
        page=True,
        query=(Query("limit", "Rows of the response."),),
        operator=True,
    ),
    Route("GET", "/access/keys", "The personal keys.", schema_ref("Keys"), page=True, operator=True),
    Route(
        "GET",
        "/access/usage",
        "What each caller uses of its limits; one's own for a reader who is no administrator.",
        schema_ref("Usage"),
        page=True,
        query=(Query("caller", "The id of one principal."),),
    ),
    Route(
        "GET", "/approvals", "The calls that wait for an approval.", schema_ref("Approvals"), page=True, operator=True
    ),
    Route(
        "GET",
        "/registry",
        "Servers of the registries, and what one of them would run.",
        schema_ref("Registry"),
        page=True,
        query=(
            Query("q", "Words of the name of a server."),
            Query("name", "The name of one server, pypi:NAME or npm:NAME."),
            Query("way", "Which of its ways to run it.", {"enum": ["", *WAYS]}),
        ),
        operator=True,
    ),
    Route(
        "GET",
        "/registry/updates",
        "The mounted packages and their newest versions.",
        schema_ref("Updates"),
        page=True,
        operator=True,
    ),
    Route(
        "GET",
        "/settings",
        "The settings that the hub was started with, without secrets, and the pages about the hub.",
        schema_ref("Hub"),
        page=True,
        operator=True,
    ),
    Route(
        "GET",
        "/nodes",
        "The living processes of all hubs on a store.",
        schema_ref("LivingNodes"),
        page=True,
        operator=True,
    ),
    Route("GET", "/webhooks", "The webhooks of events.", schema_ref("Webhooks"), page=True, operator=True),
    Route("GET", "/secrets", "The secrets, without their values.", schema_ref("Secrets"), page=True, operator=True),
    Route(
        "GET",
        "/pins",
        "The pins of mounted servers and rooms, and how much waits for approval, for the operator.",
        schema_ref("Pins"),
        page=True,
        operator=True,
    ),
    Route(
        "GET",
        "/pins/<server>",
        "What a server changed since it was approved, for the operator.",
        schema_ref("PinnedServer"),
        page=True,
        operator=True,
    ),
)
"""Pages with their JSON."""

ACCESS_DATA = (
    Route(
        "GET", "/pins/approvals/export", "All approvals of pins, as a file for another hub.", other=JSON, operator=True
    ),
)
"""Routes for programs."""

ACCESS_CHANGES = (
    Route(
        "POST",
        "/access",
        "Preview, change or remove the grants; `do` is a button of the table, such as `set call notes ann`.",
        body=form_body(
            "csrf",
            **dict.fromkeys(("action", "do", "source", "base", "theirs", "as", "groups", "why"), ""),
            **dict.fromkeys(("who", "find", "open", "page"), ""),
        ),
        status=(200, 303),
        operator=True,
    ),
    Route(
        "POST",
        "/approvals",
        "Approve or refuse a call, or all calls of a question; with `do=ticked`, those with a field call.NUMBER are"
        " approved. With `Accept: application/json`, the response is the decision.",
        schema_ref("Approval"),
        body=form_body("csrf", "id", "do"),
        status=(200, 303),
        operator=True,
    ),
    Route(
        "POST",
        "/registry",
        "Mount a server of a registry; value.NAME is the value of a variable or header.",
        body=form_body("csrf", "name", "seen", **{"way": "", "as": "", "replace": ""}),
        status=(303,),
        operator=True,
    ),
    Route(
        "POST",
        "/registry/updates",
        "Mount the newest version of a package; accept is that version, if it lists other entries.",
        body=form_body("csrf", "name", "version", accept=""),
        status=(303,),
        operator=True,
    ),
    Route(
        "POST",
        "/webhooks",
        "Send again what is paused, or end a webhook.",
        body=form_body("csrf", "id", "do"),
        status=(303,),
        operator=True,
    ),
    Route(
        "POST",
        "/secrets",
        "Store or remove a secret.",
        body=form_body("csrf", "name", do="", value="", servers=""),
        status=(303,),
        operator=True,
    ),
    Route(
        "POST",
        "/access/keys",
        "Make or revoke a personal key.",
        body=form_body("csrf", "name", do="", expires="", grants=""),
        status=(200, 303),
        operator=True,
    ),
    Route(
        "POST",
        "/pins/<server>",
        "Approve an entry with the digest that was shown, or all that was shown.",
        body=form_body("csrf", entry="", digest="", shown="", why=""),
        status=(303,),
        operator=True,
    ),
    Route(
        "POST",
        "/pins/approvals/import",
        "Take over the approvals of pins that another hub exported.",
        schema_ref("ImportedPins"),
        other=HTML,
        body={UPLOAD: form_fields("csrf", "file", "as", "why") | {"required": ["csrf", "file"]}},
        operator=True,
    ),
)
"""Routes that change something."""
