"""The JSON Schemas of the JSON responses of pages, for the OpenAPI document.

`tests/web/openapi/test_document.py` checks real responses against them.
"""

from __future__ import annotations

from patchbay.activity.records import OUTCOMES
from patchbay.activity.usage import GROUPS
from patchbay.web.openapi.account_shapes import ACCOUNT_SHAPES
from patchbay.web.openapi.document_shapes import DOCUMENT_SHAPES
from patchbay.web.openapi.registry_shapes import REGISTRY_SHAPES
from patchbay.web.openapi.route_table import (
    ANY,
    FLAG,
    INTEGER,
    LINK,
    MS,
    NUMBER,
    TEXT,
    UNIX,
    Schema,
    array_of,
    nullable,
    object_of,
    one_of,
    schema_ref,
    with_optional,
)

_OBJECT: Schema = {"type": "object"}
_REQUESTED_HOST = object_of(
    host=TEXT, port=INTEGER, reached=INTEGER, refused=INTEGER, at=UNIX, reason=TEXT, asked=TEXT, line=TEXT
)
"""A host that a confined program asked its proxy for; `line` is the entry of a list that would allow it."""

_MOVE = object_of(seq=INTEGER, name=TEXT, cid=nullable(TEXT), at=UNIX, who=TEXT, why=TEXT)
_CHANGED = object_of(verb=one_of("added", "changed", "removed"), name=TEXT, cid=nullable(TEXT))
_SNIPPET: Schema = {"type": "object", "required": ["client", "line", "text"]}
_LAST = object_of(at=UNIX, outcome=one_of(*OUTCOMES), name=TEXT, method=TEXT, ms=MS)

_SUMMARY = {
    "name": TEXT,
    "title": TEXT,
    "description": TEXT,
    "kind": TEXT,
    "origin": TEXT,
    "status": one_of("on", "off", "broken"),
    "enabled": FLAG,
    "broken": nullable(TEXT),
    "trouble": nullable(TEXT),
    "replaces": nullable(TEXT),
    "upstream": nullable({"type": "object", "properties": {"connect": LINK, "callers": TEXT}}),
    "problems": INTEGER,
    "changed": INTEGER,
    "version": nullable(TEXT),
    "runs": _OBJECT,
    "tools": INTEGER,
    "counts": array_of(TEXT),
    "endpoint": LINK,
    "meta": LINK,
    "page": LINK,
    "icon": nullable(LINK),
}
_ROOM_NUMBERS = {
    **dict.fromkeys(("members", "sessions", "servers", "tools", "open_calls", "entries"), INTEGER),
    **dict.fromkeys(("join", "history"), TEXT),
}
_ROOM_SUMMARY = object_of(
    name=TEXT,
    page=LINK,
    problem=nullable(TEXT),
    numbers=nullable(object_of(**_ROOM_NUMBERS, last=UNIX)),
    names=array_of(TEXT),
)
_ROOM = {**_ROOM_NUMBERS, **dict.fromkeys(("name", "id", "head", "state_cid", "key"), TEXT)}
_ROOM_ENTRY = object_of(
    seq=INTEGER, at=nullable(UNIX), type=TEXT, who=TEXT, sentence=TEXT, redacted=FLAG, envelope=_OBJECT
)
_LISTED = ("name", "title", "description", "uri", "mime", "source", "digest", "wire")
_DESCRIPTOR: Schema = {"type": "object", "properties": {"name": TEXT, "wire": _OBJECT}, "required": list(_LISTED)}
_TOOL: Schema = {
    "type": "object",
    "properties": {
        **{"name": TEXT, "wire": _OBJECT, "plain": LINK, "icon": nullable(LINK)},
        **{"read_only": FLAG, "hints": array_of(TEXT)},
    },
    "required": [*_LISTED, "annotations", "hints", "input", "output", "plain", "read_only"],
}
_PROBLEM = object_of(where=TEXT, reason=TEXT, line=nullable(INTEGER), fix=nullable(TEXT))
_PACKAGES = object_of(
    state=one_of("absent", "making", "ready", "failed"),
    sentence=TEXT,
    requirements=array_of(TEXT),
    locked=array_of(TEXT),
)
_DETAIL = {
    "type": "object",
    "properties": {
        **{name: shape for name, shape in _SUMMARY.items() if name not in ("problems", "tools")},
        "tools": array_of(_TOOL),
        "resources": array_of(_DESCRIPTOR),
        "templates": array_of(_DESCRIPTOR),
        "prompts": array_of(_DESCRIPTOR),
        "problems": array_of(_PROBLEM),
        "packages": nullable(_PACKAGES),
        "unapproved": array_of(TEXT),
        "instructions": nullable(TEXT),
        "definition": nullable(TEXT),
        "config": _OBJECT,
        "pinned": LINK,
    },
    "required": [*_SUMMARY, "unapproved", "resources", "templates", "prompts", "instructions", "definition", "config"],
}

_OFFERED = object_of(
    name=TEXT,
    title=TEXT,
    version=TEXT,
    description=TEXT,
    instructions=nullable(TEXT),
    info=_OBJECT,
    revision=TEXT,
    capabilities=_OBJECT,
    counts=array_of(TEXT),
    tools=array_of(_TOOL),
    resources=array_of(_DESCRIPTOR),
    templates=array_of(_DESCRIPTOR),
    prompts=array_of(_DESCRIPTOR),
    problems=array_of(_PROBLEM),
)

_CALL = {
    "id": TEXT,
    "time": {"type": "string", "format": "date-time"},
    "at": UNIX,
    "ms": MS,
    "first_ms": nullable(MS),
    "way": TEXT,
    "endpoint": TEXT,
    "method": TEXT,
    "server": TEXT,
    "version": TEXT,
    "definition": nullable(TEXT),
    "name": TEXT,
    "digest": nullable(TEXT),
    "outcome": one_of(*OUTCOMES),
    "code": nullable(INTEGER),
    "events": INTEGER,
    "progress": INTEGER,
    "size": INTEGER,
    "principal": TEXT,
    "session": nullable(TEXT),
    "client": nullable(TEXT),
    "revision": nullable(TEXT),
    "trace": nullable(TEXT),
    "task": nullable(TEXT),
    "arguments_cid": nullable(TEXT),
    "answer_cid": nullable(TEXT),
}
_MOMENTS = array_of(object_of(ms=MS, kind=TEXT, words=TEXT))
_USE = object_of(
    **dict.fromkeys(("caller", "server", "tool"), TEXT),
    **dict.fromkeys(("calls", "failed", "bytes_in", "bytes_out"), INTEGER),
    seconds=NUMBER,
)
_ORIGINS = array_of(object_of(name=TEXT, server=TEXT, tool=TEXT, version=TEXT))
_SCRIPT_CALL = object_of(
    id=TEXT,
    number=INTEGER,
    line=INTEGER,
    depth=INTEGER,
    name=TEXT,
    ms=MS,
    outcome=TEXT,
    code=nullable(INTEGER),
    arguments=ANY,
    answer=ANY,
)
_APPROVAL = object_of(
    **dict.fromkeys(
        ("id", "question", "run", "principal", "server", "tool", "tool_digest", "arguments_cid", "by"), TEXT
    ),
    arguments=nullable(TEXT),
    origins=_ORIGINS,
    state=one_of("waiting", "approved", "refused", "used", "expired", "replaced", "withdrawn"),
    waits=FLAG,
    made=UNIX,
    expires=UNIX,
    decided=nullable(UNIX),
)
_CODE_LINE = object_of(file=TEXT, line=INTEGER, function=TEXT, text=TEXT)
_RAISED = array_of(object_of(error=TEXT, relation=TEXT, frames=array_of(_CODE_LINE)))
_RUNNING = array_of(object_of(server=TEXT, method=TEXT, name=TEXT, at=UNIX))
_RANKS = dict.fromkeys(("p5", "p25", "p50", "p75", "p95", "p99", "max"), MS)
_TOOL_TIMES = array_of(
    object_of(server=TEXT, method=TEXT, name=TEXT, calls=INTEGER, failed=INTEGER, seconds=NUMBER, **_RANKS)
)
_BAR = object_of(
    at=UNIX, worked=INTEGER, failed=INTEGER, cancelled=INTEGER, at_once=INTEGER, listening=nullable(INTEGER)
)
_OPEN = object_of(running=INTEGER, streamed=INTEGER, listening=INTEGER, listening_most=INTEGER)

_PIN = nullable(object_of(cid=TEXT, body=TEXT, digest=TEXT))
_PINS = object_of(
    name=TEXT,
    page=LINK,
    changes=nullable(one_of("hold", "tell", "follow")),
    cid=nullable(TEXT),
    waiting=INTEGER,
    approved=INTEGER,
    ready=INTEGER,
    problem=TEXT,
)
_PINNED_CHANGE = object_of(
    kind=one_of("tool", "prompt", "template", "introduction"),
    name=TEXT,
    entry=TEXT,
    approved=_PIN,
    seen=_PIN,
    meanings=array_of(object_of(grade=one_of("breaking", "review", "non-breaking"), sentence=TEXT)),
    fields=array_of(TEXT),
    hidden=array_of(object_of(place=TEXT, code_points=array_of(TEXT))),
    instructions=array_of(object_of(place=TEXT, sentence=TEXT, reason=TEXT)),
    same_as=array_of(TEXT),
    problem=TEXT,
)
_COMPARISON = object_of(rows=array_of({"type": "object"}), added=INTEGER, removed=INTEGER, problem=nullable(TEXT))
_DIFFERENCE = object_of(changed=_CHANGED, sentences=array_of(TEXT), parts=array_of(_OBJECT))

_TOOLSET = object_of(
    **dict.fromkeys(("name", "kind", "broken", "price"), TEXT),
    endpoint=LINK,
    tools=array_of(
        object_of(
            **dict.fromkeys(("name", "from", "server", "tool", "description"), TEXT), bytes=INTEGER, tokens=INTEGER
        )
    ),
    bytes=INTEGER,
    tokens=INTEGER,
    unlisted=array_of(TEXT),
    problems=array_of(TEXT),
)
_RUN = object_of(
    **dict.fromkeys(("node", "by", "outcome", "message"), TEXT),
    due=UNIX,
    begun=UNIX,
    alive_until=UNIX,
    attempt=INTEGER,
    ended=nullable(UNIX),
)

SCHEMAS: dict[str, Schema] = {
    "Error": {"type": "object", "properties": {"error": TEXT, "data": ANY}, "required": ["error"]},
    "Summary": object_of(**_SUMMARY, last=nullable(_LAST)),
    "Server": _DETAIL,
    "Home": object_of(
        servers=array_of(schema_ref("Summary")), snippets=array_of(_SNIPPET), approvals=array_of(schema_ref("Approval"))
    ),
    "Connect": object_of(
        url=TEXT, servers=array_of(schema_ref("Summary")), snippets=array_of(_SNIPPET), hosted=array_of(TEXT)
    ),
    "Meta": object_of(
        server=schema_ref("Server"),
        pages=INTEGER,
        number=INTEGER,
        url=TEXT,
        pinned_url=nullable(TEXT),
        snippets=array_of(_SNIPPET),
    ),
    "Source": object_of(
        server=schema_ref("Server"),
        source=nullable(TEXT),
        versions=array_of(_MOVE),
        past=array_of(_MOVE),
        hosts=array_of(_REQUESTED_HOST),
    ),
    "Versions": object_of(
        server=TEXT, old=_OBJECT, new=_OBJECT, meaning=_OBJECT, definition=_COMPARISON, configuration=_COMPARISON
    ),
    "Draft": object_of(name=TEXT, kind=TEXT, source=TEXT, problem=nullable(TEXT)),
    "Variables": object_of(variables=array_of(object_of(name=TEXT, cid=TEXT, bytes=nullable(INTEGER), gist=TEXT))),
    "Variable": object_of(
        variable=TEXT,
        value_cid=TEXT,
        refers=FLAG,
        value=nullable(TEXT),
        problems=array_of(TEXT),
        past=array_of(_MOVE),
    ),
    "Change": object_of(
        seq=INTEGER, at=UNIX, cid=nullable(TEXT), who=TEXT, why=TEXT, changed=array_of(_CHANGED), more=INTEGER
    ),
    "History": object_of(changes=array_of(schema_ref("Change")), older=nullable(INTEGER)),
    "Moves": object_of(only=TEXT, moves=array_of(_MOVE), older=nullable(INTEGER)),
    "Compared": object_of(
        old=TEXT, new=TEXT, roots=FLAG, differences=array_of(_DIFFERENCE), contents=nullable(_COMPARISON)
    ),
    "Revoked": object_of(revocations=array_of(object_of(what=TEXT, at=UNIX, who=TEXT, why=TEXT))),
    "Access": object_of(
        source=TEXT,
        cid=nullable(TEXT),
        problem=nullable(TEXT),
        preview=nullable({"type": "object"}),
        warnings=array_of(TEXT),
        changes=array_of(TEXT),
    ),
    "Hub": object_of(
        settings=array_of(
            object_of(
                **dict.fromkeys(("name", "value", "default", "unit", "help", "option", "variable", "source"), TEXT),
                is_changed=FLAG,
            )
        ),
        parts=array_of(object_of(**dict.fromkeys(("label", "path", "purpose", "now"), TEXT))),
    ),
    "Approvals": object_of(approvals=array_of(_APPROVAL)),
    "Webhooks": object_of(
        webhooks=array_of(
            object_of(
                **dict.fromkeys(("id", "principal", "event", "server", "url", "state"), TEXT),
                live=FLAG,
                delivered=INTEGER,
                attempts=INTEGER,
                error=nullable(TEXT),
                until=nullable(UNIX),
                last_delivery=nullable(UNIX),
            )
        )
    ),
    "Secrets": object_of(
        secrets=array_of(
            object_of(
                name=TEXT,
                servers=array_of(TEXT),
                made=UNIX,
                changed=UNIX,
                by=TEXT,
                readable=FLAG,
                used_by=array_of(object_of(server=TEXT, page=TEXT, last_use=nullable(UNIX))),
                last_use=nullable(UNIX),
            )
        )
    ),
    "Use": object_of(by=one_of(*GROUPS), rows=array_of(_USE), total=_USE, whole=FLAG, begin=nullable(UNIX)),
    "Usage": object_of(
        all=FLAG,
        rows=array_of(
            object_of(
                caller=TEXT, limit=TEXT, counts=TEXT, used=INTEGER, most=nullable(INTEGER), part=NUMBER, text=TEXT
            )
        ),
    ),
    "LivingNodes": object_of(
        shared=FLAG,
        nodes=array_of(
            object_of(
                **dict.fromkeys(("host", "version"), TEXT),
                **dict.fromkeys(("process", "calls", "listeners"), INTEGER),
                age={"type": "number"},
                work=array_of(TEXT),
                lag_ms=nullable(INTEGER),
            )
        ),
    ),
    "Schedules": object_of(
        schedules=array_of(
            object_of(
                **dict.fromkeys(("server", "tool", "schedule", "timezone", "principal"), TEXT),
                page=LINK,
                arguments=_OBJECT,
                next=UNIX,
                runs=array_of(_RUN),
            )
        )
    ),
    "ScheduledRun": object_of(run=_RUN),
    "Toolset": with_optional(
        _TOOLSET,
        definition=_OBJECT,
        versions=array_of(
            object_of(
                number=INTEGER,
                at=UNIX,
                **dict.fromkeys(("who", "why"), TEXT),
                **dict.fromkeys(("current", "removed"), FLAG),
                **dict.fromkeys(("version", "cid", "definition", "configuration"), nullable(TEXT)),
                enabled=nullable(FLAG),
            )
        ),
    ),
    "Toolsets": object_of(toolsets=array_of(_TOOLSET)),
    "DraftedToolset": object_of(name=TEXT),
    "Keys": object_of(
        keys=array_of(
            object_of(
                name=TEXT,
                principal=TEXT,
                grants=nullable(array_of(TEXT)),
                made=UNIX,
                expires=nullable(UNIX),
                expired=FLAG,
                used=nullable(UNIX),
            )
        )
    ),
    "Audit": object_of(
        verified=nullable(
            object_of(
                ok=FLAG,
                sentence=TEXT,
                first=INTEGER,
                last=INTEGER,
                heads=INTEGER,
                unsigned=INTEGER,
                key=TEXT,
                tip=TEXT,
                wrong=nullable(INTEGER),
            )
        ),
        first=nullable(INTEGER),
        rows=array_of(_OBJECT),
    ),
    "Pins": object_of(operator=FLAG, servers=array_of(_PINS)),
    "PinnedServer": object_of(operator=FLAG, server=_PINS, changes=array_of(_PINNED_CHANGE), past=array_of(_MOVE)),
    "ImportedPins": object_of(approved=INTEGER, ready=INTEGER, known=INTEGER),
    "WayBack": object_of(what=TEXT, differences=array_of(_DIFFERENCE)),
    "Links": {"type": "object"},
    "Found": with_optional(
        object_of(kind=TEXT, server=TEXT, name=TEXT, title=nullable(TEXT), snippet=TEXT, page=LINK), why=TEXT
    ),
    "CallSummary": object_of(**_CALL),
    "Call": object_of(
        **_CALL,
        arguments=ANY,
        answer=ANY,
        moments=_MOMENTS,
        raised=_RAISED,
        origins=_ORIGINS,
        run=TEXT,
        line=INTEGER,
        reason=TEXT,
    ),
    "ScriptTrial": object_of(server=nullable(schema_ref("Server")), functions=TEXT, why=TEXT, result=nullable(_OBJECT)),
    "ScriptRun": object_of(
        id=TEXT,
        record=nullable(TEXT),
        server=TEXT,
        calls=array_of(_SCRIPT_CALL),
        running=array_of(object_of(name=TEXT, line=INTEGER, at=UNIX)),
        asked=array_of(
            object_of(
                key=TEXT,
                name=TEXT,
                line=INTEGER,
                message=TEXT,
                schema=nullable(_OBJECT),
                url=nullable(TEXT),
                until=UNIX,
            )
        ),
        state=TEXT,
        outcome=nullable(object_of(printed=TEXT, value=ANY, calls=array_of(_OBJECT), failure=TEXT)),
        differences=nullable(array_of(TEXT)),
    ),
    "ScriptRuns": object_of(
        runs=array_of(
            object_of(
                id=TEXT,
                state=TEXT,
                server=TEXT,
                tool=TEXT,
                caller=TEXT,
                began=UNIX,
                ended=nullable(UNIX),
                until=nullable(UNIX),
            )
        )
    ),
    "Rooms": object_of(rooms=array_of(_ROOM_SUMMARY), url=TEXT),
    "Room": object_of(
        room=object_of(**_ROOM, endpoint=LINK),
        predecessor=nullable(_OBJECT),
        policy=_OBJECT,
        flags=_OBJECT,
        sessions=array_of(_OBJECT),
        servers=array_of(_OBJECT),
        tools=array_of(_TOOL),
        entries=array_of(_ROOM_ENTRY),
        older=nullable(INTEGER),
        calls=array_of(_OBJECT),
        log_problem=nullable(TEXT),
        verdict=nullable(_OBJECT),
    ),
    "Activity": object_of(records=array_of(schema_ref("CallSummary")), next=nullable(TEXT), running=_RUNNING),
    "Plots": object_of(
        calls=INTEGER,
        all=FLAG,
        failed=INTEGER,
        begin=UNIX,
        end=UNIX,
        over_time=object_of(step=NUMBER, bars=array_of(_BAR)),
        busiest=_TOOL_TIMES,
        slowest=_TOOL_TIMES,
        open=_OPEN,
    ),
    "Operator": object_of(
        operator=FLAG,
        how=one_of("", "session", "token"),
        access=one_of("personal", "shared", "open"),
        person=nullable(TEXT),
        providers=array_of(object_of(name=TEXT, page=LINK, is_away=FLAG)),
        sign_in=FLAG,
        passkeys=FLAG,
    ),
    **ACCOUNT_SHAPES,
    **DOCUMENT_SHAPES,
    **REGISTRY_SHAPES,
    "Inspected": object_of(
        address=TEXT,
        era=one_of("auto", "modern", "legacy"),
        operator=FLAG,
        described=TEXT,
        problem=nullable(TEXT),
        server=nullable(_OFFERED),
    ),
    "Kept": object_of(cid=TEXT),
    "Uploaded": object_of(cid=TEXT, uri=TEXT, bytes=INTEGER),
    "Set": object_of(root=nullable(TEXT), cid=nullable(TEXT)),
    "Nodes": object_of(nodes=array_of(ANY)),
    "ColouredLines": object_of(language=TEXT, lines=array_of(array_of(array_of(TEXT)))),
    "Rpc": {"type": "object", "properties": {"jsonrpc": {"const": "2.0"}}, "required": ["jsonrpc"]},
}
"""All schemas of the OpenAPI document, by name."""
