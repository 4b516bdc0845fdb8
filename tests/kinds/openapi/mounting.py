"""What tests of mounted APIs share: documents, a hub with one mounted API, and looks at it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.hubs import Hub
from tests.kinds.openapi.recording_api import Answering, RecordingApi, Reply, recording_api
from tests.waiting import until

Json = dict[str, Any]


def operation(*parameters: Json, answer: Json | None = None, **fields: Any) -> Json:
    """One operation; `answer` is the schema of its JSON answer."""
    content = {} if answer is None else {"content": {"application/json": {"schema": answer}}}
    return {"parameters": list(parameters), "responses": {"200": {"description": "done", **content}}, **fields}


def parameter(name: str, place: str = "query", kind: str = "string", **fields: Any) -> Json:
    return {"name": name, "in": place, "required": place == "path", "schema": {"type": kind}, **fields}


def document(paths: Json, **fields: Any) -> Json:
    return {"openapi": "3.1.0", "info": {"title": "Shop", "version": "1"}, "paths": paths, **fields}


def body(schema: Json, media_type: str = "application/json", **fields: Any) -> Json:
    return {"requestBody": {"content": {media_type: {"schema": schema}}, **fields}}


def mount(api: RecordingApi, **fields: Any) -> str:
    """The definition of a mount of an API."""
    return json.dumps({"kind": "openapi", "document": f"{api.url}/openapi.json", **fields})


def list_tools(hub: Hub, server: str = "shop") -> dict[str, Json]:
    """The tools of a server by name."""
    return {one["name"]: one for one in hub.modern(server, "tools/list").result["tools"]}


@contextmanager
def mounted(
    folder: Path, paths: Json, answer: Answering = lambda seen: Reply({}), more: Json | None = None, **fields: Any
) -> Iterator[tuple[Hub, RecordingApi]]:
    """A hub with an API as its server `shop`. `more` are other fields of the document, `fields` those of the mount."""
    with recording_api(document(paths, **(more or {})), answer) as api:
        hub = Hub(folder, {"shop.json": mount(api, **fields)}).as_operator()
        try:
            until(lambda: hub.catalogue.find("shop").tools, lambda: hub.catalogue.find("shop"))
            yield hub, api
        finally:
            hub.close()
