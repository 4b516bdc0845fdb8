"""A field to try a script on the tools of a server, or of all servers, with their typed functions beside it.

The pages are `/servers/<name>/script` and, for the endpoint `/mcp`, `/toolsets/mcp/script`. They work without a script
of their own. A run has the rights, quotas, approvals and records of any other.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from flask import Blueprint, Response, request

from patchbay.activation import CancelFlag
from patchbay.catalogue.aggregate.aggregate import Aggregate
from patchbay.catalogue.search.tool_search import ToolSearch
from patchbay.catalogue.servers.script_tools import MAX_FOUND_TOOLS, RUN
from patchbay.catalogue.servers.server import Server
from patchbay.errors import InvalidParams, PatchbayError
from patchbay.jsonrpc import Result
from patchbay.messages.callers import TransportInfo
from patchbay.protocol.run_tool import find_tool, run_tool
from patchbay.web.operator.changes import explain_refusal, read_draft_form
from patchbay.web.rendering.templates import format_json
from patchbay.web.site.answers import render_answer
from patchbay.web.site.data import explain_no_scripts, page_path
from patchbay.web.site.site import Site, base_url
from patchbay.web.toolsets.form import read_arguments

WAY = "page"
"""The entry point in the records of these runs."""

PAGE_OF_ALL = "/toolsets/mcp/script"
"""The page of the endpoint of all servers."""


class _ScriptTrialViews:
    def __init__(self, site: Site) -> None:
        self._site = site

    def show(self, name: str) -> Response:
        """GET /servers/<name>/script: the field and the functions; `find` chooses among these. Raises UnknownServer."""
        return self._show(self._site.visible.find(name))

    def show_all(self) -> Response:
        """GET /toolsets/mcp/script: the same for the endpoint of all servers."""
        return self._show(self._site.visible.aggregate())

    def run(self, name: str) -> Response:
        """POST /servers/<name>/script: run the script, or find functions (`action`). Raises UnknownServer, Refused."""
        return self._answer_form(lambda: self._site.visible.find(name))

    def run_all(self) -> Response:
        """POST /toolsets/mcp/script: the same at the endpoint of all servers. Raises Refused."""
        return self._answer_form(self._site.visible.aggregate)

    def _show(self, server: Server) -> Response:
        return self._page(server, {"find": request.args.get("find", "")})

    def _answer_form(self, find_server: Callable[[], Server]) -> Response:
        """Run the script of a form, or find functions. The server is looked up after the rights of the sender."""
        fields, refused = read_draft_form(self._site)
        server = find_server()
        if refused is not None:
            return self._page(server, fields, refused.message, refused.status)
        if fields.get("action", "run") not in ("run", "rehearse"):
            return self._page(server, fields)
        try:
            return self._page(server, fields, ran=self._run(server, fields))
        except PatchbayError as problem:
            return self._page(server, fields, problem.message, 400)

    def _run(self, server: Server, fields: dict[str, str]) -> dict[str, Any]:
        """Run the script of a form as the reader; return its result and the id of its run. Raises InvalidParams."""
        if not server.has_scripts:
            raise InvalidParams(f"{server.name} runs no scripts: {explain_no_scripts(server)}")
        from patchbay.scripting.front import script_server

        front = script_server(server)
        tool = find_tool(front, RUN)
        arguments: dict[str, Any] = {"code": fields.get("code", "")}
        arguments["inputs"] = read_arguments(fields.get("inputs", ""), {})
        if fields.get("action") == "rehearse":
            arguments["rehearse"] = True
        wire = TransportInfo(_endpoint(server), sender=self._site.sender, way=WAY)
        terms: dict[str, Any] = {"principal": wire.sender.id, "sender": wire.sender, "cancelled": CancelFlag()}
        terms["find_base_url"] = partial(str, base_url())  # its calls run on other threads, without the request
        with self._site.activity.begin("tools/call", RUN, front, wire, arguments) as record:
            run = run_tool(self._site.catalogue.hub, front, tool, arguments, None, terms)
            run.call.meta = record.calls(tool, run.call)
            for event in run.events:
                record.saw(event)
            result = run.result()
            record.end(Result(0, result))
        return {"isError": False, **result, "run": run.call.run}

    def _page(
        self,
        server: Server,
        typed: dict[str, str],
        wrong: str = "",
        status: int = 200,
        ran: dict[str, Any] | None = None,
    ) -> Response:
        found = self._find_functions(server, typed.get("find", "")) if server.has_scripts else ""
        structured = (ran or {}).get("structuredContent", {})
        data = {
            "server": self._site.detail(server) if _endpoint(server) else None,
            "functions": found,
            "why": explain_no_scripts(server),
            "result": ran,
        }
        response = render_answer(
            self._site,
            "script.html",
            "servers",
            data,
            page=page_path(server.name) if _endpoint(server) else "",
            form=f"{page_path(server.name)}/script" if _endpoint(server) else PAGE_OF_ALL,
            typed={"code": "", "inputs": "", "find": ""} | typed,
            wrong=wrong,
            texts=[one["text"] for one in (ran or {}).get("content", ()) if one.get("type") == "text"],
            value=format_json(structured["value"]) if "value" in structured else "",
            calls=structured.get("calls", []),
            rehearsed=structured.get("rehearsed"),
            refusal=explain_refusal(self._site),
            csrf=self._site.operators.csrf(),
        )
        response.status_code = status
        return response

    def _find_functions(self, server: Server, words: str) -> str:
        """Return the typed functions of the tools that fit some words, as `find_tools` shows them to a model."""
        from patchbay.scripting.modules import describe_tools, modules_of

        tools = {name: one for name, one in server.found_tools.items() if one.is_for_models}
        names = ToolSearch(tools).names(words, MAX_FOUND_TOOLS)
        return describe_tools(modules_of(server), names)


def _endpoint(server: Server) -> str:
    """Return the name of a server below /mcp, "" for all servers."""
    return "" if isinstance(server, Aggregate) else server.name


def script_trials_blueprint(site: Site) -> Blueprint:
    """The routes of `/servers/<name>/script` and `/toolsets/mcp/script`."""
    views = _ScriptTrialViews(site)
    blueprint = Blueprint("script_trials", __name__)
    blueprint.add_url_rule("/servers/<name>/script", "show", views.show)
    blueprint.add_url_rule("/servers/<name>/script", "run", views.run, methods=["POST"])
    blueprint.add_url_rule(PAGE_OF_ALL, "show_all", views.show_all)
    blueprint.add_url_rule(PAGE_OF_ALL, "run_all", views.run_all, methods=["POST"])
    return blueprint
