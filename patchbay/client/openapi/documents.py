"""Get the document of an API: from a URL, from a file, or from the usual paths of a server.

JSON is read strictly; YAML only as far as it expresses the same values as JSON. References lead to other documents of
the same origin; with a document in a file, to files of its folder and below.

Sources: OpenAPI 3.1.1; RFC 8631 (`service-desc`).
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urljoin, urlsplit

import yaml

from patchbay.client.addresses.launchers import API_DOCUMENT_PATH, DOCUMENT_ENDINGS
from patchbay.client.addresses.targets import mask_url
from patchbay.client.openapi.http_client import ApiClient, ApiFailure, Reply, get_origin
from patchbay.client.openapi.operations import Api, DocumentError
from patchbay.client.openapi.remote_parts import Read, include_remote_parts
from patchbay.client.openapi.requests import HttpRequest
from patchbay.errors import ParseError
from patchbay.jsonrpc import parse_file

USUAL_PATHS = (
    "openapi.json",
    "swagger.json",
    "v3/api-docs",
    "openapi.yaml",
    "api/openapi.json",
    "swagger/v1/swagger.json",
)
"""Paths at which servers publish their document, tried in this order below the URL."""


MAX_DOCUMENT_BYTES = 16 * 1024 * 1024
"""Bytes of the document of a mounted API and, beside it, of the other documents that it refers to."""

MAX_FETCHED_DOCUMENTS = 1_000
"""Number of documents that are fetched for one document."""


MAX_EXPANDED_CHARACTERS = 32 * 1024 * 1024
"""Characters of the values of a YAML document whose aliases are replaced."""


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    """Loads YAML that expresses the same values as JSON.

    An alias is replaced by what it names, and a merge key (`<<`) by the members of its mappings, while the whole
    document has at most MAX_EXPANDED_CHARACTERS then: aliases of aliases make a small document grow without bound.
    """

    def compose_document(self) -> Any:
        document = super().compose_document()
        _measure(document, {})
        return document

    def flatten_mapping(self, node: Any) -> None:
        for key, value in node.value:
            is_plain = isinstance(key, yaml.ScalarNode) and key.style is None
            if is_plain and key.value == "<<" and not isinstance(value, yaml.ScalarNode):
                key.tag = "tag:yaml.org,2002:merge"
        super().flatten_mapping(node)
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                key.tag = "tag:yaml.org,2002:str"  # `200:` is "200", as OpenAPI requires


def _measure(node: Any, known: dict[int, int | None]) -> int:
    """Return the characters of a node after its aliases are replaced. Raises YAMLError above the limit."""
    if isinstance(node, yaml.ScalarNode):
        return len(node.value) + 1
    size = known.get(id(node), 0)
    if size is None:
        raise yaml.YAMLError("an alias names a node that contains it")
    if not size:
        known[id(node)] = None
        pairs = isinstance(node, yaml.MappingNode)
        parts = [part for pair in node.value for part in pair] if pairs else node.value
        size = 1
        for part in parts:
            size += _measure(part, known)
            if size > MAX_EXPANDED_CHARACTERS:
                raise yaml.YAMLError(
                    f"with its aliases replaced it has more than {MAX_EXPANDED_CHARACTERS} characters, the limit"
                )
        known[id(node)] = size
    return size


def _construct_integer(loader: Any, node: Any) -> int | float:
    """Construct an integer; one beyond 64 bits is a float, as in JSON."""
    number = int(loader.construct_scalar(node))
    return number if -(2**63) <= number < 2**64 else float(number)


_Loader.add_constructor("tag:yaml.org,2002:int", _construct_integer)
_Loader.yaml_implicit_resolvers = {}
for _tag, _rule, _first in (
    ("null", r"null|Null|NULL|~|", ["n", "N", "~", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", [*"tTfF"]),
    ("int", r"[-+]?(0|[1-9][0-9]*)", [*"-+0123456789"]),
    ("float", r"[-+]?(\.[0-9]+|(0|[1-9][0-9]*)(\.[0-9]*)?)([eE][-+]?[0-9]+)?", [*"-+.0123456789"]),
):
    # YAML 1.2: `on`, `no` and `12:30` are text. Numbers that JSON does not have (010, 0x1f, .inf) are text too.
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(f"(?:{_rule})\\Z"), _first)


def parse_document(data: bytes, where: str) -> Any:
    """Parse a document, or a part of one: JSON, or YAML with the same values. Raises DocumentError."""
    try:
        return parse_file(data)
    except ParseError as problem:
        if data.lstrip()[:1] in (b"{", b"["):
            raise DocumentError(f"{where}: expected JSON or YAML; {problem.message}") from problem
    try:
        value = yaml.load(data, _Loader)
        json.dumps(value, allow_nan=False)  # an explicit tag may have made a value that JSON does not have
        return value
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as problem:
        raise DocumentError(f"{where}: expected JSON or YAML; {_describe(problem)}") from problem


def _describe(problem: Exception) -> str:
    """Return what is wrong with a YAML document, with its place, on one line."""
    if isinstance(problem, yaml.reader.ReaderError):
        return f"it is not text in UTF-8 ({problem.reason} at position {problem.position})"
    if isinstance(problem, yaml.MarkedYAMLError) and problem.problem_mark is not None:
        mark = problem.problem_mark
        return f"{str(problem.problem)[:200]} at line {mark.line + 1}, column {mark.column + 1}"
    return str(problem)[:200]


def parse_api(data: bytes, where: str) -> Api:
    """Parse the document of an API. Raises DocumentError."""
    return Api(parse_document(data, where), where)


def parse_whole_api(data: bytes, where: str, url: str, read: Read) -> Api:
    """Parse the document of an API at a URL, with the parts that other documents have. Raises DocumentError."""
    return Api(include_remote_parts(parse_api(data, where).document, url, read), where)


def load_api_file(path: Path, limit: int) -> Api:
    """Load the document of an API from a file, with other files of its folder. Raises DocumentError."""
    url = path.absolute().as_uri()
    return parse_whole_api(read_api_file(path, limit), str(path), url, read_beside(path, limit))


def read_beside(document: Path, limit: int) -> Read:
    """Return what reads other documents in the folder of a document and below: at most `limit` bytes of all of them."""
    folder, left = document.parent.resolve(), limit

    def read(url: str) -> Any:
        nonlocal left
        parts = urlsplit(url)
        path = Path(unquote(parts.path)).resolve()
        if parts.scheme != "file" or parts.netloc or not path.is_relative_to(folder):
            raise DocumentError("it leads out of the folder of the document")
        name = str(path.relative_to(folder))
        if left <= 0:
            raise DocumentError(f"the files of the document have more than {limit} bytes")
        data = read_api_file(path, limit, name)
        left -= len(data)
        return parse_document(data, name)

    return read


def fetch_beside(client: ApiClient, document: str, limit: int) -> Read:
    """Return what fetches other documents of the origin of a document: at most `limit` bytes of all of them."""
    left, count = limit, 0

    def read(url: str) -> Any:
        nonlocal left, count
        count += 1
        if get_origin(url) != get_origin(document):
            raise DocumentError("it leads to another origin than that of the document")
        if left <= 0 or count > MAX_FETCHED_DOCUMENTS:
            raise DocumentError(f"the document needs more than {limit} bytes or {MAX_FETCHED_DOCUMENTS} documents")
        data = client.send(HttpRequest("GET", url)).body
        left -= len(data)
        if left < 0:
            raise DocumentError(f"the document needs more than {limit} bytes of other documents")
        return parse_document(data, mask_url(url))

    return read


def read_api_file(path: Path, limit: int, name: str = "") -> bytes:
    """Return the bytes of a file of at most `limit` bytes. Raises DocumentError, which calls the file `name`."""
    name = name or str(path)
    try:
        with path.open("rb") as file:
            data = file.read(limit + 1)
    except OSError as problem:
        raise DocumentError(f"{name}: expected a readable file ({problem.strerror})") from problem
    if len(data) > limit:
        raise DocumentError(f"{name}: expected at most {limit} bytes")
    return data


def fetch_api(url: str, client: ApiClient) -> tuple[Api, str]:
    """Fetch the document of an API, and return it with its URL: the one given, one that it links to, or a usual path.

    Raises DocumentError with the URLs that were tried; Unreachable.
    """
    tried: list[str] = []
    left = [url] if _names_document(url) else [url, *_list_usual_urls(url)]
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


def _names_document(url: str) -> bool:
    """Whether a URL is that of a document: another one is not taken in its place when it cannot be read."""
    path = url.partition("?")[0].partition("#")[0]
    return API_DOCUMENT_PATH.search(path) is not None or path.lower().endswith(DOCUMENT_ENDINGS)


def _list_usual_urls(url: str) -> list[str]:
    base = url.partition("?")[0].rstrip("/") + "/"
    root = urljoin(url, "/")
    return list(
        dict.fromkeys([*(urljoin(base, name) for name in USUAL_PATHS), *(urljoin(root, name) for name in USUAL_PATHS)])
    )


def find_linked_document(reply: Reply) -> str:
    """Find the document that an answer links to (`Link: <...>; rel="service-desc"`), of the same origin; "" without a
    link.
    """
    link = reply.find_link("service-desc")
    url = urljoin(reply.url, link)
    return url if link and get_origin(url) == get_origin(reply.url) else ""
