"""The table of all routes of the hub, with what each takes and answers. Nothing is served that is not in it.

`/openapi.json` is made from it (openapi.py), so are the addresses that end in `.json`; a test asserts that the app has
no route beside it. Sources: DESIGN section 8; issue "Pages that people like to look at", part 7.
"""

from __future__ import annotations

from patchbay.activity.records import OUTCOMES
from patchbay.catalogue.directory import KINDS
from patchbay.web.api.route_table import ANY, TEXT, Query, Route, many, named
from patchbay.web.pages.activity import MAX_RECORDS

FORM = "application/x-www-form-urlencoded"
JSON = "application/json"
BYTES = "application/octet-stream"
EVENTS = "text/event-stream"
PLAIN = "text/plain"


def _form(*required: str, **more: str) -> dict[str, dict[str, object]]:
    fields = dict.fromkeys((*required, *more), TEXT)
    return {FORM: {"type": "object", "properties": fields, "required": list(required)}}


_BEFORE = Query(
    "before", "Only older ones: the number that the last page ended with.", {"type": "integer", "minimum": 0}
)
_CALLS = (
    Query("server", "The name of a server."),
    Query("tool", "The name of a tool or prompt, or the URI of a resource."),
    Query("outcome", "How it ended.", {"enum": ["", *OUTCOMES]}),
    Query("since", "A time: 15m, 2h, 7d, seconds since 1970, or ISO 8601."),
    Query("until", "The same."),
)
_RPC = {"anyOf": [named("Rpc"), many(named("Rpc"))]}
_PAIR = (Query("old", "A CID.", required=True), Query("new", "A CID.", required=True))
_BACK = (Query("root", "The root to go back to."), Query("name", "Or a name,"), Query("cid", "and what it was."))

_ADDRESS = (
    Query("address", "Where the server is: a URL, or any other address."),
    Query("era", "Which revisions are spoken.", {"enum": ["auto", "modern", "legacy"]}),
    Query("seal", "What the page's own addresses carry; programs need none."),
)

PAGES = (
    Route("GET", "/", "What is plugged in, and how to connect.", named("Home"), page=True),
    Route("GET", "/mcp", "How to connect to all servers at once.", named("Connect"), page=True),
    Route(
        "GET",
        "/mcp/meta/<address>",
        "What one server offers; `address` is its name, or name@version.",
        named("Meta"),
        page=True,
        query=(Query("page", "Which hundred of its tools, from 1.", {"type": "integer", "minimum": 1}),),
    ),
    Route("GET", "/servers", "All servers.", many(named("Summary")), page=True),
    Route("GET", "/servers/<name>", "What a server is made of, and its versions.", named("Source"), page=True),
    Route("GET", "/servers/<name>/compare", "Two versions of a server.", named("Versions"), page=True, query=_PAIR),
    Route("GET", "/servers/<name>/edit", "A form to change a server.", named("Draft"), page=True),
    Route("GET", "/servers/new", "A form for a new server.", named("Draft"), page=True),
    Route("GET", "/variables", "All variables.", named("Variables"), page=True),
    Route("GET", "/variables/<name>", "A variable and its past.", named("Variable"), page=True),
    Route("GET", "/history", "All roots, newest first.", named("History"), page=True, query=(_BEFORE,)),
    Route(
        "GET",
        "/history/names",
        "What names pointed to, newest first.",
        named("Moves"),
        page=True,
        query=(Query("name", "Only this name, such as servers/echo."), _BEFORE),
    ),
    Route("GET", "/history/compare", "Two roots, or two contents.", named("Compared"), page=True, query=_PAIR),
    Route(
        "GET",
        "/history/revoke",
        "What is revoked, and why.",
        named("Revoked"),
        page=True,
        query=(Query("target", "What to fill into the form: a CID, or the name of a server."),),
    ),
    Route("GET", "/history/rollback", "What going back would change.", named("WayBack"), page=True, query=_BACK),
    Route(
        "GET",
        "/search",
        "Servers and what they offer, by words.",
        many(named("Found")),
        page=True,
        query=(
            Query("q", "Words."),
            Query("kind", "Only of this kind.", {"enum": ["", *KINDS]}),
        ),
    ),
    Route(
        "GET",
        "/activity",
        "Calls, newest first, and plots of them.",
        named("Activity"),
        page=True,
        query=(
            *_CALLS,
            Query("limit", "How many.", {"type": "integer", "minimum": 1, "maximum": MAX_RECORDS}),
            Query("before", "Only older ones: `next` of the last page."),
        ),
    ),
    Route("GET", "/activity/<id>", "One call with all that was kept of it.", named("Call"), page=True),
    Route(
        "GET",
        "/inspect",
        "What another MCP server offers, for the operator.",
        named("Inspected"),
        page=True,
        query=_ADDRESS,
        operator=True,
    ),
    Route(
        "GET",
        "/login",
        "Who is the operator here.",
        named("Operator"),
        page=True,
        query=(Query("next", "Where to go then."), Query("once", "What a login link carries; it works once.")),
        status=(200, 303),
    ),
)
"""What people open; each has its JSON."""

DATA = (
    Route("GET", "/openapi.json", "This document.", {"type": "object", "required": ["openapi", "paths"]}),
    Route("GET", "/activity/plots.json", "The numbers of the plots.", named("Plots"), query=_CALLS),
    Route("GET", "/activity/events", "Calls as they end; does not end itself.", other=EVENTS, query=_CALLS),
    Route(
        "GET",
        "/cid/<address>",
        "Content by its CID; for a browser a page about it.",
        ANY,
        page=True,
        twin="/cid/<address>/links.json",
        other="*/*",
        status=(200, 304, 308),
    ),
    Route("GET", "/healthz", "Whether the process answers.", other=PLAIN),
    Route("GET", "/readyz", "Whether it may get work.", other=PLAIN, status=(200, 503)),
    Route("GET", "/metrics", "Numbers for Prometheus.", other="*/*"),
    Route("GET", "/<name>", "Run the tool named like its server, if it only reads.", ANY, other="*/*"),
    Route("GET", "/<name>/<function>", "Run a tool that only reads.", ANY, other="*/*"),
)
"""What programs read."""

CHANGES = (
    Route(
        "POST",
        "/<name>",
        "Run the tool named like its server.",
        ANY,
        other="*/*",
        body={JSON: {"type": "object"}, FORM: ANY},
    ),
    Route("POST", "/<name>/<function>", "Run a tool.", ANY, other="*/*", body={JSON: {"type": "object"}, FORM: ANY}),
    Route("POST", "/render/markdown", "Markdown as a tree of harmless elements.", named("Nodes"), body={PLAIN: TEXT}),
    Route("POST", "/cid", "Keep content.", named("Kept"), body={BYTES: ANY}, status=(200, 201), operator=True),
    Route(
        "PUT",
        "/cid/<address>",
        "Keep the content of a CID.",
        named("Kept"),
        body={BYTES: ANY},
        status=(200, 201),
        operator=True,
    ),
    Route(
        "PUT",
        "/variables/<name>",
        "Set a variable.",
        named("Set"),
        body={PLAIN: TEXT},
        status=(200, 201),
        operator=True,
    ),
    Route("DELETE", "/variables/<name>", "Take a variable away.", named("Set"), operator=True),
    Route("POST", "/servers/new", "Save a new server.", body=_form("csrf"), status=(200, 303), operator=True),
    Route(
        "POST", "/servers/<name>/edit", "Save a changed server.", body=_form("csrf"), status=(200, 303), operator=True
    ),
    Route(
        "POST",
        "/history/rollback",
        "Go back.",
        body=_form("csrf", root="", name="", cid="", why="", seen=""),
        status=(303,),
        operator=True,
    ),
    Route(
        "POST",
        "/history/revoke",
        "Revoke a content or a server, or take that back.",
        body=_form("csrf", "target", why="", do=""),
        status=(303,),
        operator=True,
    ),
    Route(
        "POST", "/inspect", "Inspect a server.", body=_form("csrf", address="", era=""), status=(303,), operator=True
    ),
    *(
        Route(
            "POST",
            f"/inspect/{what}",
            says,
            body=_form("csrf", "name", address="", era="", replace=""),
            status=(303,),
            operator=True,
        )
        for what, says in (
            ("profile", "Keep an inspected server as a profile."),
            ("mount", "Serve an inspected server here."),
        )
    ),
    *(
        Route(
            method,
            "/inspect/mcp",
            "MCP with an inspected server.",
            _RPC,
            other=EVENTS,
            query=_ADDRESS,
            body={JSON: ANY} if method == "POST" else None,
            status=(200, 202, 204),
            operator=True,
        )
        for method in ("POST", "GET", "DELETE")
    ),
    Route("POST", "/login", "Log in.", body=_form("token", next=""), status=(303,)),
    Route("POST", "/logout", "Log out.", body=_form(), status=(303,)),
)
"""What changes something, or may."""

PROTOCOLS = (
    Route("POST", "/mcp", "MCP for all servers at once.", _RPC, other=EVENTS, body={JSON: ANY}, status=(200, 202)),
    Route("POST", "/mcp/<server>", "MCP for one server.", _RPC, other=EVENTS, body={JSON: ANY}, status=(200, 202)),
    Route(
        "POST",
        "/rpc",
        "The native interface of the whole hub.",
        _RPC,
        other=EVENTS,
        body={JSON: ANY},
        status=(200, 202),
    ),
)
"""What is served before Flask sees it; MCP itself says what these take and answer."""

WHOLE_TABLE = (*PAGES, *DATA, *CHANGES, *PROTOCOLS)
