"""The rows of the routes of servers, for the table of all routes (`routes.py`)."""

from __future__ import annotations

from patchbay.web.openapi.route_table import Query, Route, array_of, form_body, schema_ref

_OLD_AND_NEW = (Query("old", "A CID.", required=True), Query("new", "A CID.", required=True))

SERVER_PAGES = (
    Route(
        "GET",
        "/schedules",
        "The schedules of tools, with their runs.",
        schema_ref("Schedules"),
        page=True,
        operator=True,
    ),
    Route(
        "GET",
        "/toolsets",
        "The list of all servers and each toolset, with their prices.",
        schema_ref("Toolsets"),
        page=True,
    ),
    Route("GET", "/toolsets/<name>", "A toolset: its tools with their prices.", schema_ref("Toolset"), page=True),
    Route(
        "GET",
        "/toolsets/new",
        "A form for a new toolset.",
        schema_ref("DraftedToolset"),
        page=True,
        query=(Query("add", "A tool that is chosen beforehand."), Query("find", "Only tools that have these words.")),
    ),
    Route(
        "GET",
        "/servers/<name>/script",
        "A field to try a script, and the typed functions of the tools of a server.",
        schema_ref("ScriptTrial"),
        page=True,
        query=(Query("find", "Only functions that fit these words."),),
    ),
    Route(
        "GET",
        "/toolsets/mcp/script",
        "The same for the endpoint of all servers, which `server` is null for.",
        schema_ref("ScriptTrial"),
        page=True,
        query=(Query("find", "Only functions that fit these words."),),
    ),
    Route("GET", "/servers", "All servers.", array_of(schema_ref("Summary")), page=True),
    Route(
        "GET",
        "/servers/<name>",
        "A page to use a server; as JSON its definition, configuration and versions.",
        schema_ref("Source"),
        page=True,
        query=(
            Query("page", "The number of the page, from 1; a page has 100 tools.", {"type": "integer", "minimum": 1}),
            Query("find", "Only entries that have these words."),
        ),
    ),
    *(
        Route("GET", f"/servers/<name>/{tab}", says, schema_ref("Source"), page=True)
        for tab, says in (
            ("source", "The definition and configuration of a server."),
            ("past", "The versions and changes of a server."),
            ("settings", "The settings of a server as a form and as a text, its addresses and its isolation."),
            ("configuration", "The same page as `settings`, for the reload of a form."),
        )
    ),
    Route(
        "GET",
        "/servers/<name>/compare",
        "Compare two versions of a server.",
        schema_ref("Versions"),
        page=True,
        query=_OLD_AND_NEW,
    ),
    Route("GET", "/servers/<name>/edit", "A form to change a server.", schema_ref("Draft"), page=True),
    Route(
        "GET",
        "/servers/new",
        "A form for a new server.",
        schema_ref("Draft"),
        page=True,
        query=(Query("kind", "The kind of the sample.", {"enum": ["python", "shell", "static"]}),),
    ),
    Route(
        "GET",
        "/servers/<name>/documents",
        "The documents of a server: a folder, one document, or a search.",
        schema_ref("Documents"),
        page=True,
        query=(
            Query("path", "The document to read."),
            Query("version", "The CID of an earlier version of the document."),
            Query("folder", "The folder to list."),
            Query("q", "Words to search for."),
        ),
    ),
    Route(
        "GET",
        "/servers/<name>/documents/compare",
        "Compare two versions of a document.",
        schema_ref("DocumentVersions"),
        page=True,
        query=(Query("path", "The document.", required=True), *_OLD_AND_NEW),
    ),
    Route(
        "GET",
        "/servers/<name>/documents/edit",
        "A form to change a document, or to write a new one.",
        schema_ref("DocumentDraft"),
        page=True,
        query=(
            Query("path", "The document; without it, a new one."),
            Query("version", "The CID of an earlier version, to restore it."),
            Query("folder", "The folder of a new document."),
        ),
    ),
)
"""Pages of servers."""

SERVER_CHANGES = (
    Route(
        "POST",
        "/schedules",
        "Run the tool of a schedule now; with `Accept: application/json`, the response is its run.",
        schema_ref("ScheduledRun"),
        body=form_body("csrf", "server", "tool", next=""),
        status=(200, 303),
        operator=True,
    ),
    Route(
        "POST",
        "/servers/<name>/script",
        "Run a script with the tools of a server (`action` is run, rehearse or find).",
        schema_ref("ScriptTrial"),
        page=True,
        body=form_body("csrf", code="", inputs="", find="", action=""),
        operator=True,
    ),
    Route(
        "POST",
        "/toolsets/mcp/script",
        "Run a script with the tools of all servers (`action` is run, rehearse or find).",
        schema_ref("ScriptTrial"),
        page=True,
        body=form_body("csrf", code="", inputs="", find="", action=""),
        operator=True,
    ),
    Route(
        "POST",
        "/activity/runs/<id>",
        "Repeat a run of a script against the records of its calls, without a call, for the operator; with `do=cancel`,"
        " cancel a run that waits, for the operator and for its own caller; with `do=answer`, answer a `question` of"
        " one of its tools, for its own caller (`action` is accept, decline or cancel, `content` the answer as JSON).",
        schema_ref("ScriptRun"),
        body=form_body("csrf", do="", question="", action="", content=""),
        status=(200, 303),
    ),
    Route(
        "POST",
        "/toolsets/<name>",
        "Change a toolset (`do` is new, add, remove, shape, script, put or rollback; `entries` are lines), or check or"
        " save its form.",
        schema_ref("Toolset"),
        body=form_body(
            "csrf",
            **dict.fromkeys(("do", "entries", "tool", "shape", "title", "description", "called", "script"), ""),
            fields="",
            version="",
        ),
        status=(200, 303),
        operator=True,
    ),
    Route(
        "POST",
        "/toolsets/new",
        "Check or save (`action`) a new toolset.",
        body=form_body("csrf", name="", action=""),
        status=(200, 303),
        operator=True,
    ),
    Route(
        "POST",
        "/servers/<name>/settings",
        "Switch a server on or off, restart it, or remove it.",
        body=form_body("csrf", "do"),
        status=(303,),
        operator=True,
    ),
    Route(
        "POST",
        "/servers/<name>/configuration",
        "Check or save (`action`) the configuration of a server: its `text`, and the fields of a form that differ from"
        " `shown`. `base` is the CID of the configuration that it replaces, empty for none.",
        schema_ref("Source"),
        body=form_body("csrf", "base", text="", shown="", action=""),
        status=(200, 303),
        operator=True,
    ),
    Route(
        "POST",
        "/servers",
        "Bring a removed server back.",
        body=form_body("csrf", "name", do=""),
        status=(303,),
        operator=True,
    ),
    Route(
        "POST",
        "/servers/new/documents",
        "Serve the documents of a folder.",
        body=form_body("csrf", "name", "root"),
        status=(303,),
        operator=True,
    ),
    Route(
        "POST",
        "/servers/new/pasted",
        "Show what a pasted configuration would run (`text`), or the HTTP API of a document (`document`); or mount one"
        " of its servers (`definition` and `name`).",
        schema_ref("Pasted"),
        body=form_body("csrf", text="", document="", definition="", name="", replace=""),
        status=(200, 303),
        operator=True,
    ),
    Route("POST", "/servers/new", "Save a new server.", body=form_body("csrf"), status=(200, 303), operator=True),
    Route(
        "POST",
        "/servers/<name>/edit",
        "Save a changed server.",
        body=form_body("csrf"),
        status=(200, 303),
        operator=True,
    ),
    Route(
        "POST",
        "/servers/<name>/documents/edit",
        "Save a document.",
        body=form_body("csrf", "path", "text", base="", action=""),
        status=(200, 303),
        operator=True,
    ),
    Route(
        "POST",
        "/servers/<name>/packages",
        "Install the packages of a definition again after a failure.",
        body=form_body("csrf"),
        status=(303,),
        operator=True,
    ),
)
"""Changes of servers by their operator."""
