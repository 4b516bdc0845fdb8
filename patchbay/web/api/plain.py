"""Tools over plain HTTP: `/<server>[/<function>]`, for the address bar of a browser and for curl.

GET runs only tools that are known to only read; the hub does not trust the annotations of a mounted server. GET and
POST need proof that no other site caused the request. Arguments come from the query or the body, never from headers.
Headers keep a browser from running the result as a page of the hub.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Mapping
from functools import partial
from typing import Any
from urllib.parse import parse_qsl

import orjson
from flask import Blueprint, Response, request
from werkzeug.exceptions import MethodNotAllowed

from patchbay.activity.call_recording import CallRecording
from patchbay.activity.recorder import Activity
from patchbay.activity.tracing import KEYS
from patchbay.catalogue.reading.queries import parse_arguments
from patchbay.descriptors import Descriptor
from patchbay.errors import InvalidParams, ToolFailed, WrongArguments
from patchbay.events import Data, Event, Text
from patchbay.jsonrpc import Result, dump_json, parse
from patchbay.messages.callers import TransportInfo
from patchbay.protocol.run_tool import ToolRun, find_tool, run_tool
from patchbay.views.fold import format_value
from patchbay.web.site.site import Site
from patchbay.wire.requests.base_urls import find_base_url
from patchbay.wire.requests.bodies import Unsupported, media_type, read_body
from patchbay.wire.requests.security import SANDBOX_CSP, check_same_origin
from patchbay.wire.requests.wsgi import request_of

FORM = "application/x-www-form-urlencoded"
UNKNOWN_TYPE = "application/octet-stream"
MAX_FORM_FIELDS = 1000


_MEDIA_TYPE = re.compile(r"[\w.+-]+/[\w.+-]+(?: ?; ?[\w.+-]+=[\w.+-]+)*", re.ASCII)


class _PlainHttpViews:
    def __init__(self, site: Site, activity: Activity) -> None:
        self._site = site
        self._activity = activity

    def run(self, name: str, function: str | None = None) -> Response:
        """Run a tool and return its result. Raises UnknownServer, UnknownTool, InvalidParams."""
        server, sender = self._site.visible.find(name), self._site.sender
        tool = find_tool(server, function or name)
        arguments = self._arguments(tool)
        meta = {key: request.headers[key] for key in KEYS if key in request.headers}
        with self._activity.begin(
            "tools/call", tool.name, server, TransportInfo(name, sender=sender, way="plain"), arguments, meta
        ) as record:
            record.client = request.headers.get("User-Agent")
            try:
                # The response holds the whole result, without links to stored content.
                terms: dict[str, Any] = {"principal": sender.id, "sender": sender, "meta": meta}
                own = request_of(request.environ)
                terms |= {"find_base_url": partial(find_base_url, own), "find_header": own.headers.get}
                run = run_tool(self._site.catalogue.hub, server, tool, arguments, None, terms)
            except WrongArguments as problem:
                raise InvalidParams(problem.message, problem.data) from problem
            events = _collect_events(run, record)
            result = run.result()
            record.end(Result(0, result))
        return response_for_result(result, events)

    def _arguments(self, tool: Descriptor) -> dict[str, Any]:
        schema = tool.wire["inputSchema"]
        check_same_origin(request.headers)
        if request.method != "POST":
            if not tool.read_only:
                raise MethodNotAllowed(["POST"], f"{tool.name} can change something: send its arguments by POST.")
            return parse_arguments(_parse_form(request.query_string), schema)
        body = read_body(request_of(request.environ), self._site.settings.body_limit)
        kind = media_type(request.environ.get("CONTENT_TYPE") or "")
        if kind == FORM:
            return parse_arguments(_parse_form(body), schema)
        if not body and not kind:
            return {}
        if kind != "application/json":
            raise Unsupported(
                f"send the arguments as application/json or {FORM}; the content type is {kind or 'missing'}"
            )
        value = parse(body)
        if not isinstance(value, dict):
            raise InvalidParams("the body must be a JSON object: the arguments by name")
        return value


def _collect_events(run: ToolRun, record: CallRecording) -> list[Event]:
    """Run a tool to its end; return its text and data events, which decide the form of the response."""
    run.call.meta = record.calls(run.descriptor, run.call)
    found: list[Event] = []
    for event in run.events:
        record.saw(event)
        if isinstance(event, (Text, Data)):
            found.append(event)
    return found


def _parse_form(encoded: bytes) -> list[tuple[str, str]]:
    try:
        return parse_qsl(
            encoded.decode("utf-8"), keep_blank_values=True, errors="strict", max_num_fields=MAX_FORM_FIELDS
        )
    except ValueError as problem:
        raise InvalidParams(f"the arguments are not a valid form in UTF-8: {problem}") from problem


def response_for_result(result: Mapping[str, Any], events: list[Event]) -> Response:
    """Make an HTTP response of a tool result: one value, one image, text, or the whole result as JSON."""
    if result.get("isError"):
        return _error_response("\n".join(item["text"] for item in result["content"] if item["type"] == "text"))
    try:
        return _content_response(result, events)
    except ToolFailed as problem:
        return _error_response(problem.message)


def _content_response(result: Mapping[str, Any], events: list[Event]) -> Response:
    content = result["content"]
    data = [event for event in events if isinstance(event, Data) and event.text is None]
    if len(data) == 1 and len(content) == 1:
        return _data_response(data[0])
    if all(item["type"] == "text" for item in content):
        return _response("".join(item["text"] for item in content).encode("utf-8", "replace"), "text/plain")
    if len(content) == 1 and (found := _content_bytes(content[0])) is not None:
        return _response(*found)
    return _response(dump_json(dict(result)), "application/json")


def _data_response(event: Data) -> Response:
    kind = event.content_type or "application/json"
    if isinstance(event.value, str) and event.content_type is not None:
        return _response(event.value.encode("utf-8", "replace"), kind)
    return _response(format_value(event.value).encode() if kind != "application/json" else dump_json(event.value), kind)


def _content_bytes(item: Mapping[str, Any]) -> tuple[bytes, str] | None:
    """The bytes and media type of one content block; None for a link."""
    if item["type"] in ("image", "audio"):
        return _decode_base64(item["data"]), item["mimeType"]
    if item["type"] != "resource":
        return None
    resource = item["resource"]
    if "blob" in resource:
        return _decode_base64(resource["blob"]), resource.get("mimeType", UNKNOWN_TYPE)
    return str(resource["text"]).encode("utf-8", "replace"), resource.get("mimeType", "text/plain")


def _decode_base64(base64: str) -> bytes:
    try:
        return b64decode(base64, validate=True)
    except ValueError as problem:
        raise ToolFailed(f"the tool returned content that is not base64: {problem}") from problem


def _error_response(sentence: str) -> Response:
    if "application/json" in request.headers.get("Accept", ""):
        response = _response(orjson.dumps({"error": sentence}), "application/json")
    else:
        response = _response((sentence + "\n").encode("utf-8", "replace"), "text/plain")
    response.status_code = 500
    return response


def _response(body: bytes, kind: str) -> Response:
    """A response that browsers do not treat as a page of the hub, with any media type."""
    kind = kind if _MEDIA_TYPE.fullmatch(kind) else UNKNOWN_TYPE
    charset = "; charset=utf-8" if kind.startswith("text/") and ";" not in kind else ""
    response = Response(body, content_type=kind + charset)
    response.headers["Content-Security-Policy"] = SANDBOX_CSP
    response.headers["Cross-Origin-Resource-Policy"] = "same-origin"
    response.headers["Cache-Control"] = "no-store"
    return response


def plain_blueprint(site: Site, activity: Activity) -> Blueprint:
    """The routes `/<server>` and `/<server>/<function>`; all other routes of the hub take precedence."""
    views = _PlainHttpViews(site, activity)
    plain = Blueprint("plain", __name__)
    plain.add_url_rule("/<name>", "server", views.run, methods=["GET", "POST"])
    plain.add_url_rule("/<name>/<function>", "function", views.run, methods=["GET", "POST"])
    return plain
