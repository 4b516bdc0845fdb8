"""Versions of documents that are numbers, because YAML has them without quotes (issue 50 item 13)."""

from __future__ import annotations

import pytest

from patchbay.client.openapi.documents import parse_api
from patchbay.client.openapi.operations import DocumentError

PATHS = """
info: {title: 5, version: 1.0}
host: api.example.org
paths:
  /notes:
    get:
      operationId: list
      parameters:
        - {name: size, in: query, type: string, schema: {type: string}}
      responses:
        200: {description: OK}
        default: {description: no}
"""


@pytest.mark.parametrize(
    ("line", "is_swagger"),
    [
        ("swagger: 2.0", True),
        ("swagger: '2.0'", True),
        ("swagger: 2", True),
        ("openapi: 3.0", False),
        ("openapi: 3.1", False),
        ("openapi: 3.1.0", False),
        ("openapi: '3.0.3'", False),
    ],
)
def test_a_version_without_quotes_is_read(line: str, is_swagger: bool) -> None:
    api = parse_api((line + PATHS).encode(), "the test")
    assert api.is_swagger is is_swagger
    assert list(api.list_operations()) == ["list"]


@pytest.mark.parametrize(
    ("line", "got"),
    [
        ("swagger: 1.2", '"swagger": 1.2'),
        ("swagger: true", '"swagger": True'),
        ("openapi: 4.0", '"openapi": 4.0'),
        ("openapi: [3]", '"openapi": [3]'),
        ("asyncapi: 2.0.0", "neither"),
        ("openapi: null", '"openapi": None'),
    ],
)
def test_another_version_is_refused_with_what_is_there(line: str, got: str) -> None:
    with pytest.raises(DocumentError, match="expected"):
        parse_api((line + PATHS).encode(), "the test")
    try:
        parse_api((line + PATHS).encode(), "the test")
    except DocumentError as problem:
        assert problem.message.endswith(f"got {got}")
