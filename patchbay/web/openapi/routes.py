"""The table of all routes of the hub, with their parameters and responses.

`/openapi.json` and the URLs that end with `.json` are made from the table (openapi.py). A test checks that the app has
no other route.
"""

from __future__ import annotations

from patchbay.activity.records import FAILURES, OUTCOMES
from patchbay.activity.usage import GROUPS
from patchbay.catalogue.search.directory import KINDS
from patchbay.web.activity.activity import MAX_RECORDS
from patchbay.web.openapi.access_routes import ACCESS_CHANGES, ACCESS_DATA, ACCESS_PAGES
from patchbay.web.openapi.account_routes import CARD_ROUTES, OAUTH_ROUTES, PEOPLE_ROUTES
from patchbay.web.openapi.route_table import ANY, TEXT, Query, Route, array_of, form_body, one_of, schema_ref
from patchbay.web.openapi.server_routes import SERVER_CHANGES, SERVER_PAGES

FORM = "application/x-www-form-urlencoded"
JSON = "application/json"
BYTES = "application/octet-stream"
EVENTS = "text/event-stream"
PLAIN = "text/plain"


_BEFORE = Query(
    "before", "Only older entries: the `older` number of the previous page.", {"type": "integer", "minimum": 0}
)
_CALLS = (
    Query("server", "The name of a server."),
    Query("tool", "The name of a tool or prompt, or the URI of a resource."),
    Query("outcome", "The outcome of the call; `failed` means each failure.", {"enum": ["", *OUTCOMES, FAILURES]}),
    Query("caller", "The id of a principal, such as ann@example.org or key:robot; for the operator."),
    Query("since", "A time: 15m, 2h, 7d, seconds since 1970, or ISO 8601."),
    Query("until", "A time, in the same forms."),
)
_RPC = {"anyOf": [schema_ref("Rpc"), array_of(schema_ref("Rpc"))]}
_OLD_AND_NEW = (Query("old", "A CID.", required=True), Query("new", "A CID.", required=True))
_ROLLBACK = (Query("root", "The root to go back to."), Query("name", "Or a name"), Query("cid", "and its earlier CID."))

_ADDRESS = (
    Query("address", "The address of the server: a URL or another form."),
    Query("era", "The protocol revisions to use.", {"enum": ["auto", "modern", "legacy"]}),
    Query("seal", "The signature in the links of the page; programs do not need it."),
)

_BY = Query(
    "by", "What a row is about; a reader who is no administrator has toolset, server and tool.", one_of(*GROUPS)
)

PAGES = (
    Route("GET", "/", "The servers of the hub, and how to connect.", schema_ref("Home"), page=True),
    Route("GET", "/mcp", "How to connect to all servers at once.", schema_ref("Connect"), page=True),
    Route(
        "GET",
        "/mcp/meta/<address>",
        "The tools, resources and prompts of a server; `address` is its name, or name@version.",
        schema_ref("Meta"),
        page=True,
        query=(
            Query("page", "The number of the page, from 1; a page has 100 tools.", {"type": "integer", "minimum": 1}),
            Query("find", "Only entries that have these words."),
        ),
    ),
    *SERVER_PAGES,
    Route(
        "GET",
        "/variables",
        "All variables.",
        schema_ref("Variables"),
        page=True,
        query=(Query("name", "The name that the form of a new variable has."),),
    ),
    Route("GET", "/variables/<name>", "A variable and its history.", schema_ref("Variable"), page=True),
    Route("GET", "/history", "All roots, newest first.", schema_ref("History"), page=True, query=(_BEFORE,)),
    Route(
        "GET",
        "/history/names",
        "Changes of names, newest first.",
        schema_ref("Moves"),
        page=True,
        query=(Query("name", "Only this name, such as servers/echo."), _BEFORE),
    ),
    Route(
        "GET",
        "/history/compare",
        "Compare two roots or two contents.",
        schema_ref("Compared"),
        page=True,
        query=_OLD_AND_NEW,
    ),
    Route(
        "GET",
        "/history/revoke",
        "The current revocations.",
        schema_ref("Revoked"),
        page=True,
        query=(Query("target", "The initial value of the form: a CID, or the name of a server."),),
    ),
    Route(
        "GET",
        "/history/rollback",
        "The changes that a rollback would make.",
        schema_ref("WayBack"),
        page=True,
        query=_ROLLBACK,
    ),
    *ACCESS_PAGES,
    Route(
        "GET",
        "/search",
        "Search in servers, tools, resources and prompts.",
        array_of(schema_ref("Found")),
        page=True,
        query=(
            Query("q", "Words."),
            Query("kind", "Only of this kind.", {"enum": ["", *KINDS]}),
        ),
    ),
    Route(
        "GET",
        "/activity",
        "Calls, newest first, and charts.",
        schema_ref("Activity"),
        page=True,
        query=(
            *_CALLS,
            Query("limit", "Number of records.", {"type": "integer", "minimum": 1, "maximum": MAX_RECORDS}),
            Query("before", "Only older records: `next` of the previous page."),
        ),
    ),
    Route(
        "GET",
        "/activity/usage",
        "Who used what: calls, failures, bytes and seconds by person, key, toolset, server or tool.",
        schema_ref("Use"),
        page=True,
        query=(*_CALLS, _BY),
    ),
    Route("GET", "/activity/<id>", "One call with all fields of its record.", schema_ref("Call"), page=True),
    Route(
        "GET",
        "/activity/runs",
        "The runs of scripts that waited for a person in the last day, and what each one does now.",
        schema_ref("ScriptRuns"),
        page=True,
    ),
    Route(
        "GET",
        "/activity/runs/<id>",
        "One run of a script with its calls, for the operator and for its own caller.",
        schema_ref("ScriptRun"),
        page=True,
    ),
    Route(
        "GET",
        "/rooms",
        "The rooms of the hub.",
        schema_ref("Rooms"),
        page=True,
        query=(Query("page", "The page of the list, from 1.", {"type": "integer", "minimum": 1}),),
    ),
    Route(
        "GET",
        "/rooms/<room>",
        "One room: its members, servers, tools, calls, policy and the newest entries of its log.",
        schema_ref("Room"),
        page=True,
        query=(
            Query("before", "Only entries before this seq.", {"type": "integer", "minimum": 1}),
            Query("verify", "Any text: check the whole log."),
        ),
    ),
    Route(
        "GET",
        "/inspect",
        "The tools, resources and prompts of another MCP server, for the operator.",
        schema_ref("Inspected"),
        page=True,
        query=_ADDRESS,
        operator=True,
    ),
    Route(
        "GET",
        "/login",
        "The login page; whether the sender is the operator.",
        schema_ref("Operator"),
        page=True,
        query=(Query("next", "The page after the login."), Query("once", "The token of a login link; it works once.")),
        status=(200, 303),
    ),
)
"""Pages for people; each has a JSON form."""

DATA = (
    *ACCESS_DATA,
    Route("GET", "/openapi.json", "This document.", {"type": "object", "required": ["openapi", "paths"]}),
    Route("GET", "/activity/usage.csv", "The rows of the use as CSV.", other="text/csv", query=(*_CALLS, _BY)),
    Route("GET", "/activity/plots.json", "The data of the charts.", schema_ref("Plots"), query=_CALLS),
    Route("GET", "/rooms/<room>/changes", "The seq of the newest entry as server-sent events.", other=EVENTS),
    Route(
        "GET",
        "/activity/events",
        "New calls as server-sent events, without an end.",
        other=EVENTS,
        query=(
            *_CALLS,
            Query(
                "only",
                "`approvals`: changes of waiting calls; `attention`: also of what else needs attention.",
                {"enum": ["", "approvals", "attention"]},
            ),
        ),
    ),
    Route(
        "GET",
        "/cid/<address>",
        "The bytes of a content by its CID; for browsers a page.",
        ANY,
        page=True,
        twin="/cid/<address>/links.json",
        other="*/*",
        status=(200, 304, 308),
    ),
    Route(
        "GET",
        "/servers/<name>/icon",
        "The picture of a server or of one of its tools.",
        other="*/*",
        status=(200, 304),
        query=(Query("tool", "The name of a tool of the server."),),
    ),
    Route(
        "GET",
        "/render/app",
        "The frame of an app, with the policy that the app declares.",
        other="text/html",
        query=(Query("csp", "The JSON of `_meta.ui.csp` of the app."),),
    ),
    Route("GET", "/healthz", "Whether every worker responds.", other=PLAIN),
    Route("GET", "/readyz", "Whether the process can take work.", other=PLAIN, status=(200, 503)),
    Route("GET", "/metrics", "Numbers for Prometheus.", other="*/*"),
    Route("GET", "/<name>", "Run the tool with the name of its server, if it only reads.", ANY, other="*/*"),
    Route("GET", "/<name>/<function>", "Run a tool that only reads.", ANY, other="*/*"),
)
"""Routes that programs read."""

CHANGES = (
    Route(
        "POST",
        "/<name>",
        "Run the tool with the name of its server.",
        ANY,
        other="*/*",
        body={JSON: {"type": "object"}, FORM: ANY},
    ),
    Route("POST", "/<name>/<function>", "Run a tool.", ANY, other="*/*", body={JSON: {"type": "object"}, FORM: ANY}),
    Route(
        "POST",
        "/render/markdown",
        "Render Markdown as a tree of safe elements.",
        schema_ref("Nodes"),
        body={PLAIN: TEXT},
    ),
    Route(
        "POST",
        "/render/code",
        "Split code into lines of coloured pieces.",
        schema_ref("ColouredLines"),
        query=(Query("language", "A language or a kind of server; without it, the kind of the definition."),),
        body={PLAIN: TEXT},
    ),
    Route(
        "POST",
        "/blobs",
        "Upload a content, to give its link in place of it in a call of a tool.",
        schema_ref("Uploaded"),
        body={BYTES: ANY},
        status=(201,),
    ),
    Route("POST", "/cid", "Store a content.", schema_ref("Kept"), body={BYTES: ANY}, status=(200, 201), operator=True),
    Route(
        "PUT",
        "/cid/<address>",
        "Store the content of a CID.",
        schema_ref("Kept"),
        body={BYTES: ANY},
        status=(200, 201),
        operator=True,
    ),
    Route(
        "PUT",
        "/variables/<name>",
        "Set a variable.",
        schema_ref("Set"),
        body={PLAIN: TEXT},
        status=(200, 201),
        operator=True,
    ),
    Route(
        "POST",
        "/variables",
        "Make a variable.",
        body=form_body("csrf", "name", source="", why=""),
        status=(303,),
        operator=True,
    ),
    Route(
        "POST",
        "/variables/<name>",
        "Set a variable with a form, or remove it.",
        body=form_body("csrf", source="", base="", why="", do=""),
        status=(303,),
        operator=True,
    ),
    Route("DELETE", "/variables/<name>", "Delete a variable.", schema_ref("Set"), operator=True),
    *SERVER_CHANGES,
    Route(
        "POST",
        "/history/rollback",
        "Roll back to a root, or a name to an earlier CID.",
        body=form_body("csrf", root="", name="", cid="", why="", seen=""),
        status=(303,),
        operator=True,
    ),
    Route(
        "POST",
        "/history/revoke",
        "Revoke a content or a server, or undo a revocation.",
        body=form_body("csrf", "target", why="", do=""),
        status=(303,),
        operator=True,
    ),
    *ACCESS_CHANGES,
    Route(
        "POST",
        "/inspect",
        "Inspect a server.",
        body=form_body("csrf", address="", era=""),
        status=(303,),
        operator=True,
    ),
    *(
        Route(
            "POST",
            f"/inspect/{what}",
            says,
            body=form_body("csrf", "name", address="", era="", replace=""),
            status=(303,),
            operator=True,
        )
        for what, says in (
            ("profile", "Save an inspected server as a profile."),
            ("mount", "Mount an inspected server."),
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
    Route(
        "POST",
        "/rooms",
        "Create a room, with do=fork one that goes on from an entry of another; do=remove deletes one.",
        body=form_body("name", csrf="", do="", join="", history="", room="", seq="", head=""),
        status=(303,),
        operator=True,
    ),
    Route("POST", "/login", "Log in.", body=form_body("token", next=""), status=(303,)),
    Route("POST", "/logout", "Log out.", body=form_body(), status=(303,)),
)
"""Routes that change something, or can."""

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
"""Routes that are served in front of Flask; the MCP specification describes their messages."""

ALL_ROUTES = (*PAGES, *DATA, *CHANGES, *PROTOCOLS, *PEOPLE_ROUTES, *CARD_ROUTES, *OAUTH_ROUTES)
