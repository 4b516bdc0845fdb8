"""`/toolsets`: choose the tools that a model sees, with the price of each; rename, describe and try them before saving.

Every page works without a script. The commands `patchbay toolset ...` send the same forms to a running hub.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import orjson
from flask import Blueprint, Response, request

from patchbay.access.principals import LOCAL_ID
from patchbay.activation import CancelFlag
from patchbay.catalogue.operating.delegated_toolsets import DelegatedToolsets, VisibleServers
from patchbay.catalogue.operating.toolset_changes import ALL_SERVERS, ToolsetChange, Toolsets
from patchbay.catalogue.operating.toolsets import TOOLSET, WILDCARDS, DraftedToolset, Split, describe_problem
from patchbay.catalogue.servers.list_prices import count_bytes, describe_price, estimate_tokens
from patchbay.catalogue.servers.server import Server
from patchbay.descriptors import Descriptor
from patchbay.errors import (
    ConfigError,
    ContentError,
    InvalidParams,
    PatchbayError,
    Refused,
    StaleUpdate,
    UnknownServer,
)
from patchbay.jsonrpc import Result
from patchbay.messages.callers import TransportInfo
from patchbay.protocol.run_tool import find_tool, run_tool
from patchbay.python_functions.script_texts import CID_PREFIX, scripts_of
from patchbay.web.operator.changes import (
    explain_refusal,
    find_author,
    follow_folder,
    read_draft_form,
)
from patchbay.web.operator.login import read_form_with_files, redirect_to
from patchbay.web.rendering.templates import format_json
from patchbay.web.site.answers import is_json_address, render_answer, wants_json
from patchbay.web.site.data import page_path
from patchbay.web.site.site import Site
from patchbay.web.toolsets.form import (
    PATTERNS,
    RESULT,
    SCRIPT_ROW,
    Properties,
    is_readable,
    name_control,
    read_arguments,
    read_form_fields,
    read_script_files,
    without_taken_script,
    write_value,
)
from patchbay.web.toolsets.scripts import CHOICE, describe_choice, has_own_choice, offer_choice, read_choice

PAGE = "/toolsets"

MAX_SHOWN_TOOLS = 500
"""Tools that one page offers; a search narrows them."""

MAX_FORM_FIELDS = 20_000
"""Fields of the form: a tick for each offered tool, and seven for each chosen one; `body_limit` limits their bytes."""

_SHAPE = dict.fromkeys(("new_name", "title", "description", "arguments", "script"))
"""What a command may change about one tool."""

UNKNOWN_PRICE = "not known until the fault of the form is mended; Check says what it is"

TextOf = Callable[[str], str]
"""Returns the text of what the field `script` of a tool says."""

TRY = "try:"
"""The beginning of the value of a button that tries a tool."""

WAY = "draft"
"""The entry point in the records of calls that try a tool before its toolset is saved."""


class _ToolsetsViews:
    def __init__(self, site: Site) -> None:
        self._site = site
        self._of_hub = Toolsets(site.catalogue, site.settings.servers, lambda: follow_folder(site))

    @property
    def _toolsets(self) -> Toolsets:
        """The toolsets that the reader of the current page may change, or see."""
        names, site = self._own_names(), self._site
        if not names:
            return self._of_hub
        servers = VisibleServers(site.visible, site.catalogue.listing)
        return DelegatedToolsets(servers, site.settings.servers, lambda: follow_folder(site), names)

    def _own_names(self) -> frozenset[str]:
        """Return the names of the toolsets that grants let the reader make; empty for the operator, who makes all."""
        if self._site.operators.lenient_proof().is_operator or self._site.sender.id == LOCAL_ID:
            return frozenset()
        return frozenset(self._site.access.rights(self._site.sender).operated_names())

    def _check_reader(self, name: str = "") -> None:
        """Check that the reader may see the whole configuration, or make the toolset of a name. Raises NotFound."""
        names = self._own_names()
        if not names or (name and name not in names):
            self._site.check_shows_everything()

    def index(self) -> Response:
        """GET /toolsets: the list of all servers and each toolset, with their prices; `add` offers to choose a tool.

        A maker of toolsets sees those alone. Raises NotFound for a reader who may neither see all nor make one.
        """
        self._check_reader()
        shown = {"toolsets": self._toolsets.list_all()}
        return self._answer("toolsets.html", shown, add=request.args.get("add", ""))

    def show(self, name: str) -> Response:
        """GET /toolsets/<name>: the form of a toolset; as JSON its tools with their prices. Raises UnknownServer."""
        self._check_reader(name)
        if is_json_address() or wants_json(request.headers.get("Accept", "")) or name == ALL_SERVERS:
            found = {**self._toolsets.describe(name), **self._toolsets.versions(name)}
            return self._answer("toolset_list.html", found)
        try:
            server = self._toolsets.find(name)
        except ConfigError:
            return redirect_to(page_path(name))
        return self._form(server.name, server, DraftedToolset(self._fields(server), server))

    def new(self) -> Response:
        """GET /toolsets/new: the form of a new toolset; `add` chooses tools beforehand."""
        self._check_reader()
        chosen = [one for one in request.args.getlist("add") if one]
        fields = {"kind": TOOLSET, "include": chosen}
        drafted = self._toolsets.drafts.draft("new", fields) if chosen else DraftedToolset(fields, None)
        return self._form("", None, drafted)

    def change(self, name: str) -> Response:
        """POST /toolsets/<name> with `do` and its words: what the commands send. Raises Refused, InvalidParams."""
        fields, refused, faults = self._read_form(name)
        if "do" not in fields:
            return self._post_form(name, fields, refused, faults)
        if refused is not None:
            raise refused
        try:
            found = self._toolsets.apply(name, _read_change(fields), find_author(self._site))
        except (ConfigError, UnknownServer) as problem:
            raise InvalidParams(problem.message) from problem
        if wants_json(request.headers.get("Accept", "")):
            return self._answer("toolset_list.html", found)
        return redirect_to(f"{PAGE}/{quote(name, safe='')}")

    def create(self) -> Response:
        """POST /toolsets/new: check or save a new toolset."""
        return self._post_form("", *self._read_form())

    def _read_form(self, name: str = "") -> tuple[dict[str, str], Refused | None, list[str]]:
        """Read a form, whose page shows tools of all servers. A sender to whom GET does not show them gets the refusal.

        `name` is the toolset, empty for that of the form. Also returns what is wrong with the files of scripts, whose
        texts are in their fields. Raises Refused, and NotFound for an operator with limited rights.
        """
        wrong: list[str] = []

        def find_name(fields: dict[str, str]) -> str:
            return name or fields.get("name", "").strip()

        def read(limit: int, most: int) -> dict[str, str]:
            fields, files = read_form_with_files(limit, most)
            texts = read_script_files(files, fields, wrong)
            return fields | texts

        fields, refused = read_draft_form(self._site, MAX_FORM_FIELDS, find_name, read)
        if refused is not None and not self._site.visible.shows_everything:
            raise refused
        self._check_reader(find_name(fields))
        return fields, refused, wrong

    def _post_form(self, name: str, fields: dict[str, str], refused: Refused | None, faults: list[str]) -> Response:
        """Show what a form would be (`action` check), or save it. An error loses nothing that was typed.

        `faults` are what is wrong with its files.
        """
        server = self._toolsets.find(name) if name else None
        target = name or fields.get("name", "").strip()
        before = self._fields(server) if server is not None else {"kind": TOOLSET}
        checked = fields
        if refused is None or self._site.operators.toolset_proof(target).is_operator:
            before = _read_shown(fields, before)
        else:  # a stranger brings no expressions that the hub would check
            checked = {key: value for key, value in fields.items() if not key.startswith(RESULT)}
        text_of = self._make_text_of(server)
        wanted, wrong = self._read_fields(before, fields, text_of)
        wrong = [*faults, *wrong]
        as_checked = wanted if checked is fields else self._read_fields(before, checked, text_of)[0]
        drafted = self._toolsets.drafts.draft(target or "new", as_checked)
        drafted = replace(
            drafted, fields=read_choice({**drafted.fields, **wanted}, fields)
        )  # a maker has one field more
        problem: PatchbayError | None = refused or (InvalidParams(f"{'. '.join(wrong)}") if wrong else None)
        action = fields.get("action", "")
        if problem is None and action == "save":
            problem = self._save(target, server, drafted, fields)
            if problem is None:
                return redirect_to(f"{PAGE}/{quote(target, safe='')}?saved=1")
        tried: dict[str, str] = {}
        if problem is None and action.startswith(TRY) and drafted.server is not None:
            name = action.removeprefix(TRY)
            tried = {name: self._try(drafted.server, name, fields.get(f"arguments:{name}", ""))}
        return self._form(target, server, drafted, problem, without_taken_script(fields, wanted), tried)

    def _try(self, server: Server, name: str, text: str) -> str:
        """Call a tool of a draft, as the reader, and return the result as JSON, or the reason of its failure.

        The call has the rights, quotas, approvals and time limits of any other, and leaves a record. Raises no error.
        """
        try:
            tool = find_tool(server, name)
            arguments = read_arguments(text, _properties(tool))
            wire = TransportInfo(server.name, sender=self._site.sender, way=WAY)
            with self._site.activity.begin("tools/call", name, server, wire, arguments) as record:
                terms: dict[str, Any] = {"principal": wire.sender.id, "sender": wire.sender, "cancelled": CancelFlag()}
                run = run_tool(self._site.catalogue.hub, server, tool, arguments, None, terms)
                for event in run.events:
                    record.saw(event)
                result = run.result()
                record.end(Result(0, result))
        except PatchbayError as problem:
            return problem.message
        return str(format_json(result))

    def _read_fields(
        self, before: dict[str, Any], fields: dict[str, str], text_of: TextOf
    ) -> tuple[dict[str, Any], list[str]]:
        return read_form_fields(before, fields, self._properties_of, text_of, self._toolsets.drafts.split)

    def _make_text_of(self, server: Server | None) -> TextOf:
        """Return the function for the text of what the field `script` of a tool says; empty for a content not there.

        The operator reads each content. Others read those that the stored fields of this toolset name: a form can
        bring the CID of any content of the hub.
        """
        named = None
        if not self._site.operators.lenient_proof().is_operator:
            named = set(scripts_of(self._fields(server)).values()) if server is not None else set()

        def text_of(script: str) -> str:
            if not script.startswith(CID_PREFIX):
                return script
            if named is not None and script not in named:
                return ""
            try:
                return self._site.catalogue.store.blobs.get(script.removeprefix(CID_PREFIX)).decode("utf-8", "replace")
            except ContentError:
                return ""

        return text_of

    def _properties_of(self, origin: str) -> Properties:
        """Return the schemas of the arguments of a tool `server.tool`; empty for one that is not there."""
        tool = self._toolsets.drafts.find_tool(origin)
        return {} if tool is None else _properties(tool)

    def _save(
        self, name: str, server: Server | None, drafted: DraftedToolset, fields: dict[str, str]
    ) -> PatchbayError | None:
        if drafted.server is None:
            return InvalidParams(_describe_fault(drafted))
        before = server.problems if server is not None else ()
        for one in drafted.problems:
            if one.where.startswith("tools.") and one not in before:
                return InvalidParams(f"{name_control(drafted, one.where)}: {describe_problem(one)}")
        try:
            if server is None:
                self._toolsets.create(name, drafted, find_author(self._site))
            else:
                self._toolsets.save(server, drafted, find_author(self._site), "changed on its page", fields.get("base"))
        except (ConfigError, InvalidParams, Refused, StaleUpdate) as problem:
            return problem
        follow_folder(self._site)
        return None

    def _fields(self, server: Server) -> dict[str, Any]:
        try:
            return self._toolsets.fields_of(server)
        except ConfigError:
            return dict(server.config)  # of the variable mcps, which is changed there

    def _form(
        self,
        name: str,
        server: Server | None,
        drafted: DraftedToolset,
        problem: PatchbayError | None = None,
        typed: dict[str, str] | None = None,
        tried: dict[str, str] | None = None,
    ) -> Response:
        """The form, with the tools of all servers, those that are chosen, and what the list would cost."""
        words = ((typed or {}).get("find") if typed is not None else request.args.get("find")) or ""
        shown = self._offers(name, drafted, words, self._make_text_of(server))
        prices = [one["bytes"] for one in shown.chosen if one["is_listed"]]
        whole = self._toolsets.describe(ALL_SERVERS)
        is_begun = any(drafted.fields.get(kind) for kind in ("include", "tools", *PATTERNS))
        offered = offer_choice(drafted) if server is None else ""
        if server is None and not has_own_choice(typed or {}):
            drafted = replace(drafted, fields=read_choice(dict(drafted.fields), {CHOICE: offered}))
        response = self._answer(
            "toolset.html",
            {"name": name},
            toolset={
                "is_new": server is None,
                "base": self._toolsets.base_of(server) if server is not None else "",
                "title": drafted.fields.get("title", ""),
                "description": drafted.fields.get("description", ""),
                "chosen": shown.chosen,
                "servers": shown.servers,
                "more": shown.more,
                **{kind: drafted.fields.get(kind, []) for kind in PATTERNS},
                "readable": _describe_readable(drafted.server),
                "scripts": describe_choice(drafted, offered),
                "price": describe_price(prices) if drafted.server is not None or not is_begun else UNKNOWN_PRICE,
                "whole": whole["price"],
                "patterns": [one for one in drafted.fields.get("include", ()) if WILDCARDS.intersection(one)],
                "problems": _describe_problems(drafted),
                "fault": _describe_fault(drafted) if is_begun else "",
                "find": words,
                "text": format_json(dict(drafted.fields)),
                "fields": orjson.dumps(dict(drafted.fields)).decode(),
            },
            wrong=problem.message if problem is not None else "",
            tried=tried or {},
            typed=typed or {},
            saved=request.args.get("saved") == "1",
        )
        if problem is not None:
            response.status_code = problem.status if isinstance(problem, StaleUpdate | Refused) else 400
        return response

    def _offers(self, name: str, drafted: DraftedToolset, words: str, text_of: TextOf) -> _Offers:
        """Return the chosen tools, and the tools of each server that the words fit."""
        tools = drafted.server.tools if drafted.server is not None else {}
        chosen = [_describe_chosen(one, drafted.fields) for one in tools.values()]
        unlisted = _find_unlisted(drafted, self._toolsets.drafts.split)
        chosen += [_describe_unlisted(*one, drafted, self._properties_of(one[1])) for one in unlisted]
        for one in chosen:
            one["script"] = text_of(one["script"])
        given = {one["from"] for one in chosen}
        servers, left, more = [], MAX_SHOWN_TOOLS, 0
        for each in sorted(self._site.visible.all(), key=lambda one: (one.origin == "boot image", one.name)):
            if each.name == name or not each.enabled or each.broken:
                continue
            rows = [
                {
                    "name": key,
                    "origin": f"{each.name}.{key}",
                    "bytes": count_bytes(tool),
                    "tokens": estimate_tokens(count_bytes(tool)),
                    "gist": " ".join(str(tool.wire.get("description") or "").split())[:140],
                    "is_chosen": f"{each.name}.{key}" in given,
                }
                for key, tool in each.tools.items()
                if tool.is_for_models and _fits(words, each.name, key, tool.wire.get("description"))
            ]
            more += max(0, len(rows) - left)
            rows, left = rows[:left], max(0, left - len(rows))
            if rows:
                servers.append({"name": each.name, "title": each.title or each.name, "tools": rows})
        return _Offers(chosen, servers, more)

    def _answer(self, template: str, data: dict[str, Any], **view: Any) -> Response:
        toolset = data.get("name") or next(iter(sorted(self._own_names())), "")
        refusal, csrf = explain_refusal(self._site, toolset), self._site.operators.csrf(toolset)
        return render_answer(self._site, template, "toolsets", data, refusal=refusal, csrf=csrf, **view)


class _Offers:
    """The chosen tools, the tools of each server, and the number of those that are not shown."""

    def __init__(self, chosen: list[dict[str, Any]], servers: list[dict[str, Any]], more: int) -> None:
        self.chosen, self.servers, self.more = chosen, servers, more


def _fits(words: str, *texts: object) -> bool:
    """Whether each word is in one of the texts; upper and lower case are the same."""
    searched = " ".join(str(text or "") for text in texts).lower()
    return all(word in searched for word in words.lower().split())


def _properties(tool: Descriptor) -> Properties:
    known = tool.wire.get("inputSchema", {}).get("properties", {})
    return known if isinstance(known, Mapping) else {}


def _find_unlisted(drafted: DraftedToolset, split: Split) -> list[tuple[str, str]]:
    """Return the names and origins of the tools that the fields name and that the draft does not list.

    Their rows stay in the form, where what is wrong about them can be changed. Where there is no draft at all, the
    tools that `include` names are among them.
    """
    tools = drafted.server.tools if drafted.server is not None else {}
    found = [
        (name, str(one.get("from", f"{SCRIPT_ROW}{name}") if isinstance(one, Mapping) else one))
        for name, one in drafted.fields.get("tools", {}).items()
        if name not in tools
    ]
    if drafted.server is None:
        singles = [one for one in drafted.fields.get("include", ()) if "." in one and not WILDCARDS.intersection(one)]
        found += [(split(one)[1], one) for one in singles]
    return found


def _describe_problems(drafted: DraftedToolset) -> list[str]:
    """Return what a draft would not serve, each with the control of the form that it is about."""
    return [f"{name_control(drafted, one.where)}: {describe_problem(one)}" for one in drafted.problems]


def _describe_fault(drafted: DraftedToolset) -> str:
    """Return why a draft cannot be served, with the control of the form that it is about."""
    return f"{name_control(drafted, drafted.where)}: {drafted.fault}" if drafted.where else drafted.fault


def _describe_unlisted(name: str, origin: str, drafted: DraftedToolset, properties: Properties) -> dict[str, Any]:
    """Return a named tool that is not listed with what the form changes about it, and the reason."""
    reasons = [describe_problem(one) for one in drafted.problems_of(name)]
    return {
        **_describe_changes(name, drafted.fields),
        "from": origin,
        "is_listed": False,
        "reason": reasons[0] if reasons else "not listed",
        "shown": "",
        "arguments": list(properties),
        "bytes": 0,
    }


def _describe_chosen(tool: Descriptor, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return a listed tool with what the form changes about it."""
    origin = tool.origins[0] if tool.origins else None  # a script has none
    size = count_bytes(tool)
    return {
        **_describe_changes(tool.name, fields),
        "from": f"{origin.server}.{origin.name}" if origin is not None else f"{SCRIPT_ROW}{tool.name}",
        "is_listed": True,
        "shown": " ".join(str(tool.wire.get("description") or "").split())[:300],
        "arguments": list(_properties(tool)),
        "bytes": size,
        "tokens": estimate_tokens(size),
        "preview": format_json(dict(tool.wire)),
        "page": f"{page_path(origin.server)}?find={quote(origin.name)}" if origin is not None else "",
    }


def _describe_changes(name: str, fields: Mapping[str, Any]) -> dict[str, str]:
    """Return what fields give a tool as texts: its name, description, fixed arguments, jq expression and script."""
    said = fields.get("tools", {}).get(name)
    said = said if isinstance(said, Mapping) else {}
    fixed = {key: one["value"] for key, one in said.get("arguments", {}).items() if "value" in one}
    return {
        "name": name,
        "description": said.get("description", ""),
        "result": said.get("result", ""),
        "script": said.get("script", ""),
        "fixed": "\n".join(f"{key}={write_value(value)}" for key, value in fixed.items()),
    }


def _describe_readable(server: Server | None) -> dict[str, list[dict[str, str]]]:
    """Return the resources (templates too) and the prompts of a draft, each with its origin."""
    groups = {
        "resources": {**server.resources, **server.templates} if server is not None else {},
        "prompts": server.prompts if server is not None else {},
    }
    return {
        kind: [{"name": name, "from": one.origins[0].server} for name, one in group.items() if one.origins]
        for kind, group in groups.items()
    }


def _read_shown(fields: dict[str, str], stored: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that a form showed: those of the draft before it, else the stored ones. Raises InvalidParams.

    A draft is checked several times before it is saved, and each form has only a part of its fields as controls.
    """
    try:
        shown = orjson.loads(fields.get("fields") or "null")
        if shown is None:
            return stored
        if isinstance(shown, dict) and shown.get("kind") == stored.get("kind") and is_readable(shown):
            return shown
    except orjson.JSONDecodeError:
        pass
    raise InvalidParams("fields must be the configuration that the page had: open the page of the toolset again")


def _read_change(fields: dict[str, str]) -> ToolsetChange:
    """Return the change that a command sent. Raises InvalidParams."""
    shape, whole = _read_object(fields, "shape"), _read_object(fields, "fields")
    if not shape.keys() <= _SHAPE.keys():
        raise InvalidParams(f"shape must be a JSON object with {', '.join(_SHAPE)}")
    entries, called = (tuple(filter(None, fields.get(key, "").split("\n"))) for key in ("entries", "called"))
    texts = {key: fields.get(key, "") for key in ("title", "description", "script", "version", "base")}
    tool = fields.get("tool", "")
    return ToolsetChange(fields["do"], entries, tool, shape, called=called, fields=whole, **texts)


def _read_object(fields: dict[str, str], key: str) -> dict[str, Any]:
    """Return the JSON object that a field has; an empty one without the field. Raises InvalidParams."""
    try:
        found = orjson.loads(fields.get(key) or "{}")
    except orjson.JSONDecodeError as problem:
        raise InvalidParams(f"{key} must be a JSON object; {problem}") from problem
    if not isinstance(found, dict):
        raise InvalidParams(f"{key} must be a JSON object")
    return found


def toolsets_blueprint(site: Site) -> Blueprint:
    """The routes `/toolsets`, `/toolsets/new` and `/toolsets/<name>`."""
    views = _ToolsetsViews(site)
    pages = Blueprint("toolsets", __name__)
    pages.add_url_rule(PAGE, "index", views.index)
    pages.add_url_rule(f"{PAGE}/new", "new", views.new)
    pages.add_url_rule(f"{PAGE}/new", "create", views.create, methods=["POST"])
    pages.add_url_rule(f"{PAGE}/<name>", "show", views.show)
    pages.add_url_rule(f"{PAGE}/<name>", "change", views.change, methods=["POST"])
    return pages
