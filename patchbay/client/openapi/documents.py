"""Getting the description of an API: from a URL, from a file, or from the usual places of a server that has one.

JSON is read strictly; YAML as far as it says no more than JSON could. References to other
documents are never fetched. Sources: JN-66; OpenAPI 3.1.1; RFC 8631 (`service-desc`); THREATS 1.7.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import yaml

from patchbay.client.addresses.launchers import API_DOCUMENT_PATH
from patchbay.client.addresses.targets import mask_url
from patchbay.client.openapi.http_client import ApiClient, ApiFailure, Reply, get_origin
from patchbay.client.openapi.operations import Api, DocumentError
from patchbay.client.openapi.requests import HttpRequest
from patchbay.errors import ParseError
from patchbay.jsonrpc import parse

USUAL_PATHS = (
    "openapi.json",
    "swagger.json",
    "v3/api-docs",
    "openapi.yaml",
    "api/openapi.json",
    "swagger/v1/swagger.json",
)
"""Where servers keep it, tried in this order below the URL given."""

_SERVICE = re.compile(r'<([^>]*)>[^,]*;\s*rel\s*=\s*"?[^",;]*\bservice-desc\b')


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    """YAML that says no more than JSON could: an alias would let a small document grow without bound."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases are not read")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                key.tag = "tag:yaml.org,2002:str"  # `200:` is "200", as OpenAPI has it
        return super().construct_mapping(node, deep)


_Loader.yaml_implicit_resolvers = {}
for _tag, _rule, _first in (
    ("null", r"null|Null|NULL|~|", ["n", "N", "~", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", [*"tTfF"]),
    ("int", r"[-+]?(0|[1-9][0-9]*)", [*"-+0123456789"]),
    ("float", r"[-+]?(\.[0-9]+|(0|[1-9][0-9]*)(\.[0-9]*)?)([eE][-+]?[0-9]+)?", [*"-+.0123456789"]),
):
    # YAML 1.2: `on`, `no` and `12:30` are text. What its core schema has beyond JSON (010, 0x1f, .inf) is text too.
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(f"(?:{_rule})\\Z"), _first)


def parse_api(data: bytes, where: str) -> Api:
    """The API that some bytes describe. Raises DocumentError."""
    try:
        return Api(parse(data), where)
    except ParseError as problem:
        if data.lstrip()[:1] in (b"{", b"["):
            raise DocumentError(f"{where}: expected JSON or YAML; {problem.message}") from problem
    try:
        value = yaml.load(data, _Loader)
        json.dumps(value, allow_nan=False)  # an explicit tag may have made what JSON has not
        return Api(value, where)
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as problem:
        raise DocumentError(f"{where}: expected JSON or YAML; {str(problem)[:200]}") from problem


def load_api_file(path: Path, limit: int) -> Api:
    """The API that a file describes. Raises DocumentError."""
    try:
        with path.open("rb") as file:
            data = file.read(limit + 1)
    except OSError as problem:
        raise DocumentError(f"{path}: expected a readable file ({problem.strerror})") from problem
    if len(data) > limit:
        raise DocumentError(f"{path}: expected at most {limit} bytes")
    return parse_api(data, str(path))


def fetch_api(url: str, client: ApiClient) -> tuple[Api, str]:
    """The API at a URL, and the URL its description was found at: there, where it points to, or in a usual place.

    Raises DocumentError with the places that were tried; Unreachable.
    """
    tried: list[str] = []
    left = [url] if API_DOCUMENT_PATH.search(url.partition("?")[0]) else [url, *_list_usual_urls(url)]
    while left:
        place = left.pop(0)
        tried.append(mask_url(place))
        try:
            reply = client.send(HttpRequest("GET", place))
        except ApiFailure:
            if len(tried) == 1 and not left:
                raise
            continue
        try:
            return parse_api(reply.body, mask_url(place)), reply.url
        except DocumentError:
            if len(tried) == 1 and not left:
                raise
        pointed = find_linked_document(reply) if place == url else ""
        left = [pointed, *left] if pointed else left
    raise DocumentError(f"{mask_url(url)}: found no OpenAPI document; tried {', '.join(tried)}")


def _list_usual_urls(url: str) -> list[str]:
    base = url.partition("?")[0].rstrip("/") + "/"
    root = urljoin(url, "/")
    return list(
        dict.fromkeys([*(urljoin(base, name) for name in USUAL_PATHS), *(urljoin(root, name) for name in USUAL_PATHS)])
    )


def find_linked_document(reply: Reply) -> str:
    """The description that an answer points to with `Link: <...>; rel="service-desc"`, of the same origin, or ""."""
    found = _SERVICE.search(reply.headers.get("link", ""))
    url = urljoin(reply.url, found[1]) if found else ""
    return url if url and get_origin(url) == get_origin(reply.url) else ""
