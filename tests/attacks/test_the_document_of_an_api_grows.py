"""A mounted HTTP API serves a small document whose references make a huge one: its parts have limits.

Sources: CWE-776 (recursive entity references), CWE-770.
"""

from __future__ import annotations

import json
from typing import Any

from patchbay.client.openapi.documents import MAX_DOCUMENT_BYTES
from patchbay.client.openapi.operations import Api
from patchbay.client.openapi.remote_parts import MAX_PART_CHARACTERS, include_remote_parts
from patchbay.client.openapi.schemas import MAX_INLINED_CHARACTERS
from tests.hubs import Hub
from tests.kinds.openapi.mounting import document, mount, operation
from tests.kinds.openapi.recording_api import recording_api
from tests.waiting import until

LARGE = {"type": "object", "description": "x" * 1_000_000}


def spellings(pointer: str, last: str, number: int) -> list[dict[str, Any]]:
    """References that name the part `last` below `pointer` in this many ways."""
    ways = [""]
    for letter in last:
        ways = [way + one for way in ways for one in (letter, f"%{ord(letter):02X}")]
    return [{"$ref": f"{pointer}{way}"} for way in ways[:number]]


def test_one_large_part_of_another_document_with_many_names_is_not_taken_many_times() -> None:
    url = "https://api.example/openapi.json"
    references = spellings("large.json#/", "aaaaaa", 64)
    whole = include_remote_parts({"openapi": "3.1.0", "x": references}, url, lambda _: {"aaaaaa": LARGE})
    assert 1_000_000 < len(json.dumps(whole)) < MAX_PART_CHARACTERS + 100_000


def test_one_large_part_is_not_inserted_many_times() -> None:
    parts: dict[str, Any] = {"type": "object", "properties": {}}
    parts["properties"] = {f"p{number}": one for number, one in enumerate(spellings("#/x/", "a", 1) * 64)}
    content = {"requestBody": {"content": {"application/json": {"schema": parts}}}}
    api = Api(document({"/x": {"post": operation(**content)}}, x={"a": LARGE}), "the test")
    operations = api.read_operations()
    assert 1_000_000 < len(json.dumps(operations[0].tool)) < MAX_INLINED_CHARACTERS + 2_000_000


def test_other_documents_are_read_up_to_a_limit(tmp_path: Any) -> None:
    """Ten documents with 4 MB each: those beyond the limit of one document are not kept."""
    names = [f"/part{number}.json" for number in range(10)]
    paths = {"/x": {"get": operation(), "x-parts": [{"$ref": f"{name}#/a"} for name in names]}}
    with recording_api(document(paths)) as api:
        api.files = {name: {"a": {"type": "object"}, "rest": "x" * 4_000_000} for name in names}
        hub = Hub(tmp_path, {"shop.json": mount(api)})
        try:
            until(lambda: hub.catalogue.find("shop").tools, lambda: hub.catalogue.find("shop"))
        finally:
            hub.close()
        read = [one for one in api.document_requests if one.path in names]
        assert len(read) == MAX_DOCUMENT_BYTES // 4_000_000 + 1
