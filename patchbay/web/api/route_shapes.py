"""The shapes of what the hub's pages answer as JSON, by name: the schemas of the OpenAPI document.

Each stands for what a function beside its page makes; `tests/web/api/test_openapi.py` holds real answers against it.
"""

from __future__ import annotations

from patchbay.activity.records import OUTCOMES
from patchbay.web.api.route_table import (
    ANY,
    FLAG,
    MS,
    NUMBER,
    TEXT,
    UNIX,
    WHOLE,
    Schema,
    many,
    maybe,
    named,
    one_of,
    record,
)

_OBJECT: Schema = {"type": "object"}
_MOVE = record(seq=WHOLE, name=TEXT, cid=maybe(TEXT), at=UNIX, who=TEXT, why=TEXT)
_CHANGED = record(verb=one_of("added", "changed", "removed"), name=TEXT, cid=maybe(TEXT))
_SNIPPET: Schema = {"type": "object", "required": ["client", "line", "text"]}
_LAST = record(at=UNIX, outcome=one_of(*OUTCOMES), name=TEXT, method=TEXT, ms=MS)

_SUMMARY = {
    "name": TEXT,
    "title": TEXT,
    "description": TEXT,
    "kind": TEXT,
    "origin": TEXT,
    "status": one_of("on", "off", "broken"),
    "broken": maybe(TEXT),
    "replaces": maybe(TEXT),
    "upstream": maybe(_OBJECT),
    "problems": WHOLE,
    "version": maybe(TEXT),
    "runs": _OBJECT,
    "tools": WHOLE,
    "counts": many(TEXT),
    "endpoint": TEXT,
    "meta": TEXT,
    "page": TEXT,
}
_LISTED = ("name", "title", "description", "uri", "mime", "source", "digest", "wire")
_DESCRIPTOR: Schema = {"type": "object", "properties": {"name": TEXT, "wire": _OBJECT}, "required": list(_LISTED)}
_TOOL: Schema = {
    "type": "object",
    "properties": {"name": TEXT, "wire": _OBJECT, "plain": TEXT, "read_only": FLAG, "hints": many(TEXT)},
    "required": [*_LISTED, "annotations", "hints", "input", "output", "plain", "read_only"],
}
_DETAIL = {
    "type": "object",
    "properties": {
        **{name: shape for name, shape in _SUMMARY.items() if name not in ("problems", "tools")},
        "tools": many(_TOOL),
        "resources": many(_DESCRIPTOR),
        "templates": many(_DESCRIPTOR),
        "prompts": many(_DESCRIPTOR),
        "problems": many(record(where=TEXT, reason=TEXT, line=maybe(WHOLE))),
        "instructions": maybe(TEXT),
        "definition": maybe(TEXT),
        "config": _OBJECT,
    },
    "required": [*_SUMMARY, "resources", "templates", "prompts", "instructions", "definition", "config"],
}

_OFFERED = record(
    name=TEXT,
    title=TEXT,
    version=TEXT,
    description=TEXT,
    instructions=maybe(TEXT),
    info=_OBJECT,
    revision=TEXT,
    capabilities=_OBJECT,
    counts=many(TEXT),
    tools=many(_TOOL),
    resources=many(_DESCRIPTOR),
    templates=many(_DESCRIPTOR),
    prompts=many(_DESCRIPTOR),
    problems=many(record(where=TEXT, reason=TEXT, line=maybe(WHOLE))),
)

_CALL = {
    "id": TEXT,
    "time": {"type": "string", "format": "date-time"},
    "at": UNIX,
    "ms": MS,
    "first_ms": maybe(MS),
    "way": TEXT,
    "endpoint": TEXT,
    "method": TEXT,
    "server": TEXT,
    "version": TEXT,
    "definition": maybe(TEXT),
    "name": TEXT,
    "digest": maybe(TEXT),
    "outcome": one_of(*OUTCOMES),
    "code": maybe(WHOLE),
    "events": WHOLE,
    "progress": WHOLE,
    "size": WHOLE,
    "principal": TEXT,
    "session": maybe(TEXT),
    "client": maybe(TEXT),
    "revision": maybe(TEXT),
    "trace": maybe(TEXT),
    "task": maybe(TEXT),
    "arguments_cid": maybe(TEXT),
    "answer_cid": maybe(TEXT),
}
_MOMENTS = many(record(ms=MS, kind=TEXT, words=TEXT))
_RUNNING = many(record(server=TEXT, method=TEXT, name=TEXT, at=UNIX))
_RANKS = dict.fromkeys(("p5", "p25", "p50", "p75", "p95", "p99", "max"), MS)
_TOOL_TIMES = many(record(server=TEXT, method=TEXT, name=TEXT, calls=WHOLE, failed=WHOLE, seconds=NUMBER, **_RANKS))
_BAR = record(at=UNIX, worked=WHOLE, failed=WHOLE, cancelled=WHOLE, at_once=WHOLE, listening=maybe(WHOLE))
_OPEN = record(running=WHOLE, streamed=WHOLE, listening=WHOLE, listening_most=WHOLE)

_COMPARISON = record(rows=many({"type": "object"}), added=WHOLE, removed=WHOLE, problem=maybe(TEXT))
_DIFFERENCE = record(changed=_CHANGED, sentences=many(TEXT), parts=many(_OBJECT))

SHAPES: dict[str, Schema] = {
    "Error": {"type": "object", "properties": {"error": TEXT, "data": ANY}, "required": ["error"]},
    "Summary": record(**_SUMMARY, last=maybe(_LAST)),
    "Server": _DETAIL,
    "Home": record(servers=many(named("Summary")), snippets=many(_SNIPPET)),
    "Connect": record(url=TEXT, servers=many(named("Summary")), snippets=many(_SNIPPET)),
    "Meta": record(
        server=named("Server"),
        pages=WHOLE,
        number=WHOLE,
        url=TEXT,
        pinned_url=maybe(TEXT),
        snippets=many(_SNIPPET),
    ),
    "Source": record(server=named("Server"), source=maybe(TEXT), versions=many(_MOVE), past=many(_MOVE)),
    "Versions": record(
        server=TEXT, old=_OBJECT, new=_OBJECT, meaning=_OBJECT, definition=_COMPARISON, configuration=_COMPARISON
    ),
    "Draft": record(name=TEXT, kind=TEXT, source=TEXT, problem=maybe(TEXT)),
    "Variables": record(variables=many(record(name=TEXT, cid=TEXT, bytes=maybe(WHOLE), gist=TEXT))),
    "Variable": record(variable=TEXT, value_cid=TEXT, refers=FLAG, value=maybe(TEXT), past=many(_MOVE)),
    "Change": record(seq=WHOLE, at=UNIX, cid=maybe(TEXT), who=TEXT, why=TEXT, changed=many(_CHANGED), more=WHOLE),
    "History": record(changes=many(named("Change")), older=maybe(WHOLE)),
    "Moves": record(only=TEXT, moves=many(_MOVE), older=maybe(WHOLE)),
    "Compared": record(old=TEXT, new=TEXT, roots=FLAG, differences=many(_DIFFERENCE), contents=maybe(_COMPARISON)),
    "Revoked": record(revocations=many(record(what=TEXT, at=UNIX, who=TEXT, why=TEXT))),
    "WayBack": record(what=TEXT, differences=many(_DIFFERENCE)),
    "Links": {"type": "object"},
    "Found": record(kind=TEXT, server=TEXT, name=TEXT, title=maybe(TEXT), snippet=TEXT, page=TEXT),
    "CallSummary": record(**_CALL),
    "Call": record(**_CALL, arguments=ANY, answer=ANY, moments=_MOMENTS),
    "Activity": record(records=many(named("CallSummary")), next=maybe(TEXT), running=_RUNNING),
    "Plots": record(
        calls=WHOLE,
        all=FLAG,
        failed=WHOLE,
        begin=UNIX,
        end=UNIX,
        over_time=record(step=NUMBER, bars=many(_BAR)),
        busiest=_TOOL_TIMES,
        slowest=_TOOL_TIMES,
        open=_OPEN,
    ),
    "Operator": record(operator=FLAG, how=one_of("", "session", "token"), access=one_of("personal", "open")),
    "Inspected": record(
        address=TEXT,
        era=one_of("auto", "modern", "legacy"),
        operator=FLAG,
        described=TEXT,
        problem=maybe(TEXT),
        server=maybe(_OFFERED),
    ),
    "Kept": record(cid=TEXT),
    "Set": record(root=maybe(TEXT), cid=maybe(TEXT)),
    "Nodes": record(nodes=many(ANY)),
    "Rpc": {"type": "object", "properties": {"jsonrpc": {"const": "2.0"}}, "required": ["jsonrpc"]},
}
"""Every schema of the document, by its name."""
