"""The client sends files and documents of several files as mounts do (issue 33)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from patchbay.client.sources import make_sources
from tests.client.peers import open_context
from tests.kinds.openapi.mounting import body, document, operation, parameter
from tests.kinds.openapi.recording_api import RecordingApi, Reply, recording_api

FILE = {"type": "object", "properties": {"file": {"type": "string", "format": "binary"}, "note": {"type": "string"}}}
PATHS: dict[str, Any] = {
    "/upload": {"post": operation(operationId="upload", **body(FILE, "multipart/form-data"))},
    "/raw": {"post": operation(operationId="raw", **body({}, "application/octet-stream"))},
    "/orders": {"get": {"$ref": "parts/list.json"}},
}


def call(api: RecordingApi, folder: Path, name: str, **arguments: Any) -> bytes:
    """Call an operation; return the target and the body that the API got."""
    api.requests.clear()
    address = f"openapi+{api.url}/openapi.json?operation={name}"
    with open_context(folder) as context:
        list(make_sources().find(address, context).reads(address, context, arguments))
    [seen] = api.requests
    return seen.target.encode() + b"\n" + seen.body


def test_a_data_uri_is_sent_as_the_bytes_of_the_file(tmp_path: Path) -> None:
    with recording_api(document(PATHS), lambda seen: Reply({"ok": True})) as api:
        api.files["/parts/list.json"] = {}
        uri = "data:image/png;name=a.png;base64,iVBORw=="
        sent = call(api, tmp_path, "upload", file=uri, note="data:,is text")
        assert b'filename="a.png"\r\nContent-Type: image/png\r\n\r\n\x89PNG\r\n' in sent
        assert b"data:,is text" in sent, "a field that is no file is text"
        assert call(api, tmp_path, "raw", body=uri).endswith(b"\n\x89PNG")
        assert call(api, tmp_path, "raw", body="plain").endswith(b"\nplain")


def test_an_operation_in_another_document_of_the_origin_has_its_parameters(tmp_path: Path) -> None:
    with recording_api(document(PATHS), lambda seen: Reply([1])) as api:
        api.files["/parts/list.json"] = operation({"$ref": "../parameters.json#/limit"}, operationId="list")
        api.files["/parameters.json"] = {"limit": parameter("limit")}
        assert call(api, tmp_path, "list", limit="3") == b"/orders?limit=3\n"


def test_a_document_leads_the_client_to_no_other_origin(tmp_path: Path) -> None:
    """CWE-918."""
    with recording_api({}) as other, recording_api(document({}), lambda seen: Reply([1])) as api:
        other.files["/list.json"] = operation(operationId="list")
        api.document = document({"/far": {"get": {"$ref": f"{other.url}/list.json"}}, "/near": {"get": operation()}})
        with open_context(tmp_path) as context:
            found = make_sources().get("http").inspects(f"openapi+{api.url}/openapi.json", context)
        assert other.document_requests == []
        assert [one["name"] for one in found["tools"]] == ["get_near"]
        [problem] = found["problems"]
        assert problem["where"] == "GET /far" and "it leads to another origin" in problem["reason"]
