"""A request to mount a server, checked before it is logged and before a connection; scope manifests; credentials.

A room holds no secrets: a mount names credentials of the operator's variable `room-credentials`, a JSON object
`{"NAME": {"hosts": ["mcp.acme.dev"], "headers": {"Authorization": "Bearer ${ACME_TOKEN}"}}}`, whose variables are
read from the hub's environment for each connection. They go only to the origins that they name, which are scheme,
host and port. A host without a scheme means https.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import orjson

from patchbay.boot import read_variable
from patchbay.client.addresses.secrets import is_secret_name
from patchbay.client.errors import Unreachable
from patchbay.client.public_hosts import resolve_public_address
from patchbay.errors import ContentError, PatchbayError
from patchbay.rooms.folding.servers import TRANSPORTS
from patchbay.rooms.record.canonical import canonical_bytes
from patchbay.rooms.record.envelope import Json
from patchbay.rooms.record.errors import BadFrame, RoomRefused
from patchbay.store import Store
from patchbay.topics import ROOM_MANIFESTS
from patchbay.upstreams.configuration import Mount

CREDENTIALS = "room-credentials"
FIELDS = frozenset({"serverId", "transport", "exposeTools", "exposeResources", "labels", "manifest", "credentials"})
MAX_URL_CHARACTERS = 2048
MAX_LABELS, MAX_LABEL_CHARACTERS, MAX_PATTERNS = 32, 200, 256
MAX_MANIFEST_BYTES = 64 * 1024


@dataclass(frozen=True)
class GatewayContext:
    """The environment of the mounts of rooms.

    `environ` has the variables of credentials; `hub` names this hub and `version` is its own; `hosts` are the names of
    hosts that may be reached although they are not public.
    """

    environ: Mapping[str, str] = field(default_factory=dict)
    hub: str = "hub"
    version: str = "0"
    hosts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Manifest:
    """Which tools and resources of a server a room may see: patterns."""

    tools: tuple[str, ...] = ("*",)
    resources: tuple[str, ...] = ("*",)


def checked_mount(payload: Json, room: str, store: Store, context: GatewayContext) -> Json:
    """Return the payload of a mount with its manifest as a CID. Raises BadFrame, RoomRefused with a sentence."""
    unknown = sorted(set(payload) - FIELDS)
    if unknown:
        hint = "; credentials are named by reference, in the field credentials" if is_secret(unknown[0]) else ""
        raise RoomRefused(f"the mount has the field {unknown[0]!r:.40}; expected {', '.join(sorted(FIELDS))}{hint}")
    host, port = _checked_transport(payload.get("transport"))
    _check_public(host, port, context)
    _check_patterns(payload.get("exposeTools", True), "exposeTools", may_be_boolean=True)
    _check_patterns(payload.get("exposeResources", []), "exposeResources")
    _check_labels(payload.get("labels", {}))
    name = payload.get("credentials")
    if name is not None:
        credential_headers(store, name, payload["transport"]["url"])
    if "manifest" not in payload:
        return payload
    cid = _kept_manifest(store, payload["manifest"])
    store.names.move({f"{ROOM_MANIFESTS}{room}/{cid}": cid}, "rooms", "a mount names a scope manifest")
    return {**payload, "manifest": cid}


def is_secret(name: str) -> bool:
    """Whether the name of a field suggests a secret."""
    return is_secret_name(name) or name.lower() in ("headers", "env", "environment")


def _checked_transport(found: Any) -> tuple[str, int]:
    """The host and the port of a transport. Raises BadFrame, RoomRefused."""
    if not isinstance(found, dict):
        raise BadFrame("the mount has no transport; expected an object of kind and url")
    kind = found.get("kind")
    if kind == "process":
        raise RoomRefused("a room starts no programs on the hub; announce the server, or mount it by its URL")
    if kind not in TRANSPORTS:
        raise RoomRefused(f"the transport is {kind!r:.40}; a room mounts {', '.join(TRANSPORTS)}")
    unknown = sorted(set(found) - {"kind", "url"})
    if unknown:
        hint = "; credentials are named by reference, in the field credentials" if is_secret(unknown[0]) else ""
        raise RoomRefused(f"the transport has the field {unknown[0]!r:.40}; expected kind and url{hint}")
    return _checked_url(found.get("url"))


def _checked_url(url: Any) -> tuple[str, int]:
    if not isinstance(url, str) or len(url) > MAX_URL_CHARACTERS or not url.isprintable() or " " in url:
        raise BadFrame(f"the transport's url is not a string of at most {MAX_URL_CHARACTERS} characters")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError as problem:
        raise BadFrame(f"the transport's url is not a URL: {problem}") from problem
    if parts.scheme not in ("http", "https") or not host:
        raise RoomRefused(f"the transport's url is {url!r:.80}; expected one that begins with https:// or http://")
    if "@" in parts.netloc or "${" in url or any(is_secret_name(key) for key, _ in parse_qsl(parts.query)):
        raise RoomRefused("the transport's url has something secret in it; name credentials by reference")
    return host, port or (443 if parts.scheme == "https" else 80)


def _check_public(host: str, port: int, context: GatewayContext) -> None:
    if host in context.hosts:
        return
    try:
        resolve_public_address(host, port, "the mount", "the operator can allow the host: --mount-hosts")
    except Unreachable as problem:
        raise RoomRefused(problem.message) from problem


def _check_patterns(found: Any, name: str, may_be_boolean: bool = False) -> None:
    if may_be_boolean and isinstance(found, bool):
        return
    if not isinstance(found, list) or len(found) > MAX_PATTERNS or not all(isinstance(one, str) for one in found):
        also = "true, false or " if may_be_boolean else ""
        raise BadFrame(f"the mount's {name} is {found!r:.80}; expected {also}a list of at most {MAX_PATTERNS} patterns")


def _check_labels(found: Any) -> None:
    fine = isinstance(found, dict) and len(found) <= MAX_LABELS
    texts = [*found, *found.values()] if fine else []
    if not fine or not all(isinstance(one, str) and len(one) <= MAX_LABEL_CHARACTERS for one in texts):
        raise BadFrame(f"the mount's labels are not a map of at most {MAX_LABELS} strings")


def _kept_manifest(store: Store, found: Any) -> str:
    """The CID of a manifest that a mount has, or names."""
    if isinstance(found, str):
        read_manifest(store, found)
        return found
    data = canonical_bytes(found)
    _parsed_manifest(data)
    return store.blobs.put(data)


def read_manifest(store: Store, cid: str | None) -> Manifest:
    """Return the manifest of a CID; without one everything is shown. Raises BadFrame."""
    if cid is None:
        return Manifest()
    try:
        return _parsed_manifest(store.blobs.get(cid))
    except ContentError as problem:
        raise BadFrame(f"the mount's manifest cannot be read: {problem.message}") from problem


def _parsed_manifest(data: bytes) -> Manifest:
    try:
        found = orjson.loads(data) if len(data) <= MAX_MANIFEST_BYTES else None
    except orjson.JSONDecodeError:
        found = None
    if not isinstance(found, dict) or not set(found) <= {"tools", "resources", "title", "description"}:
        raise BadFrame("the manifest is not an object of tools and resources, lists of patterns")
    for name in ("tools", "resources"):
        _check_patterns(found.get(name, []), f"manifest.{name}")
    return Manifest(tuple(found.get("tools", ["*"])), tuple(found.get("resources", ["*"])))


def credential_headers(store: Store, name: Any, url: str) -> tuple[tuple[str, str], ...]:
    """Return the headers of the operator's credentials for a URL, with variables unresolved. Raises RoomRefused."""
    found = _credentials(store).get(name) if isinstance(name, str) else None
    if found is None:
        raise RoomRefused(f"the operator has no credentials called {name!r:.80} (variable {CREDENTIALS})")
    hosts, headers = found.get("hosts"), found.get("headers")
    origin = _origin(url)
    if not isinstance(hosts, list) or origin not in map(_named_origin, hosts):
        raise RoomRefused(f"the credentials {name} are not for {origin} (variable {CREDENTIALS}, field hosts)")
    if not isinstance(headers, dict) or not all(isinstance(value, str) for value in headers.values()):
        raise RoomRefused(f"the operator's variable {CREDENTIALS} gives no headers for {name}")
    return tuple(sorted(headers.items()))


def _origin(url: str) -> str:
    """Return scheme, host and port of a URL. Raises ValueError for a wrong port."""
    from patchbay.client.openapi.http_client import get_origin

    return get_origin(url)


def _named_origin(host: Any) -> str:
    """The origin that an entry of `hosts` names, such as `mcp.acme.dev`; empty for another text."""
    try:
        return _origin(host if "://" in host else f"https://{host}")
    except (TypeError, ValueError):
        return ""


def _credentials(store: Store) -> dict[str, Any]:
    try:
        data = read_variable(store, CREDENTIALS)
        found = orjson.loads(data) if data else {}
    except (PatchbayError, orjson.JSONDecodeError):
        raise RoomRefused(f"the operator's variable {CREDENTIALS} is not a JSON object") from None
    return {key: value for key, value in found.items() if isinstance(value, dict)} if isinstance(found, dict) else {}


def mount_of_record(room: str, server: str, record: Json, store: Store, context: GatewayContext) -> Mount:
    """Return the target of a mounted server in a room's state. Raises RoomRefused if it is no longer allowed."""
    host, _ = _checked_transport(record["transport"])
    name, url = record.get("credentials"), record["transport"]["url"]
    headers = credential_headers(store, name, url) if name is not None else ()
    return Mount(f"room.{room[-12:]}.{server}", url, headers, (), "auto", host not in context.hosts)
