"""The document of one mounted API: read when the mount starts and then at intervals, stored, compared with its pins.

Each mount has one thread. A document that cannot be read, or describes no API, changes nothing: the last one stays, and
the health of the mount gives the reason. `check_soon` reads it at once.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Mapping
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson

from patchbay.background import BackgroundLoop
from patchbay.caller_accounts.accounts import CallersAccounts
from patchbay.caller_accounts.credentials import Upstream
from patchbay.caller_accounts.way import WayContext
from patchbay.caller_accounts.ways import open_way, read_terms
from patchbay.client.addresses.targets import Http, mask_secrets, mask_url
from patchbay.client.addresses.variables import UnsetVariable, substitute_env_vars, substitute_env_vars_recursive
from patchbay.client.openapi.api_connection import ApiConnection
from patchbay.client.openapi.documents import (
    MAX_DOCUMENT_BYTES,
    fetch_api,
    fetch_beside,
    parse_whole_api,
    read_api_file,
    read_beside,
)
from patchbay.client.openapi.http_client import ApiClient, RequestRules
from patchbay.client.openapi.operations import Api, DocumentError
from patchbay.client.openapi.references import LOST_REFERENCES
from patchbay.client.openapi.remote_parts import PARTS, Read, include_remote_parts
from patchbay.client.openapi.requests import HttpRequest
from patchbay.errors import ContentError, PatchbayError
from patchbay.kinds.openapi.caller_sign_in import describe_issuer
from patchbay.kinds.openapi.configuration import ApiConfiguration
from patchbay.kinds.openapi.tools import ApiTools, LoadedApi, build_tools
from patchbay.pins.documents import INTRODUCTION, ItemKey, Wire
from patchbay.pins.observation import observe
from patchbay.topics import UPSTREAMS
from patchbay.upstreams.standing import Health, MountContext, PinnedMount, describe_unset

log = logging.getLogger(__name__)

AUTHOR = "upstream"
FIRST_RETRY_SECONDS, MAX_RETRY_SECONDS, JITTER = 0.5, 30.0, 0.2
"""Seconds until the next attempt after a failure, and the random part of it."""

MAX_ANSWER_BYTES = 32 * 1024 * 1024
READ_SECONDS = 60.0
"""Seconds that one document may take."""

MAX_REASON_CHARACTERS = 300
SETTING = '"base": '
"""The name of the base URL in messages."""


class StandingApi(PinnedMount["ApiMount"]):
    """Maintains one mounted API once it is started. Thread-safe."""

    def __init__(self, mount: ApiMount, context: MountContext) -> None:
        super().__init__(mount, context)
        self.health = Health()
        self.tokens: dict[str, tuple[str, float]] = {}
        """Tokens of OAuth clients by scheme, with the `time.monotonic()` until which they are used."""
        self.accounts: CallersAccounts | None = None
        """The accounts of callers; None for an API that gets the hub's credentials."""
        if mount.way is not None:
            own = WayContext(mount.name, mount.way, self._find_upstream, context.credentials)
            self.accounts = CallersAccounts(mount.name, open_way(own))
        name = f"api {mount.name}"
        self._loop = BackgroundLoop(name, self._run, f"the document of {mount.name} is read again", finish=self._close)
        self._lock = threading.Lock()
        self._tries = 0
        self._earlier_secrets = frozenset[str]()
        self._is_current = False
        self._built: tuple[str, ApiTools] | None = None
        self._read: tuple[str, str] | None = None
        """The URL and the digest of the document that was read last."""

    def start(self) -> None:
        """Start the thread; does nothing the second time."""
        with self._lock:
            if not (self._loop.is_started or self._loop.ending.is_set()):
                self.started_at = time.monotonic()
                self._loop.start()

    def stop(self) -> None:
        """End the thread; running calls go on."""
        self._loop.stop()

    def join(self, seconds: float) -> None:
        """Wait up to this many seconds for the end."""
        self._loop.join(seconds)

    def make_current(self) -> None:
        """Say that this is the mount of a served server; only then its operations are compared with the pins."""
        became_current, self._is_current = not self._is_current, True
        if became_current:
            self._read = None
            self._loop.wake()

    def check_soon(self) -> None:
        """Read the document now."""
        self._loop.wake()

    def renew(self) -> None:
        """Use the present secrets from the next request on; running requests end on the connections that they use."""
        with self._lock:
            self._earlier_secrets = self.mount.secrets(self.environ)
            known: ApiConnection | None = self.__dict__.pop("connection", None)
            for name in ("environ", "secrets"):
                self.__dict__.pop(name, None)
            self.tokens.clear()
        if known is not None:
            known.close_when_idle()
        self._loop.wake()

    def end_outdated_credentials(self) -> None:
        """End the calls with a credential of a caller that has ended."""
        if self.accounts is not None:
            self.accounts.end_outdated()

    @cached_property
    def environ(self) -> Mapping[str, str]:
        """What the configuration may name, until a secret changes."""
        return self._context.variables(self.mount.name)

    @cached_property
    def secrets(self) -> frozenset[str]:
        """The values that no message shows, with those before the last change."""
        return self.mount.secrets(self.environ) | self._earlier_secrets

    @cached_property
    def connection(self) -> ApiConnection:
        """The kept connections to the API. Raises ConfigError for a missing variable."""
        return ApiConnection(RequestRules(self._named_urls(), self._headers(), SETTING), MAX_ANSWER_BYTES)

    def substitute(self, value: Any, path: str) -> Any:
        """Return a value of the configuration with its variables. Raises ConfigError for a missing one."""
        return substitute_env_vars_recursive(value, self.environ, self.mount.name, path)

    def last(self) -> LoadedApi | None:
        """Return the document that was read last, also before a restart."""
        cid = self._context.store.names.get(self._stored_name)
        return self._load(cid) if cid else None

    def _load(self, cid: str) -> LoadedApi | None:
        try:
            found = orjson.loads(self._context.store.blobs.get(cid))
        except (ContentError, orjson.JSONDecodeError):
            return None
        return LoadedApi(cid, found["url"], found["document"])

    def build(self) -> ApiTools | None:
        """Return the tools of the last document; None before there is one."""
        cid, built = self._context.store.names.get(self._stored_name), self._built
        if cid is not None and built is not None and built[0] == cid:
            return built[1]
        loaded = self._load(cid) if cid is not None else None
        if loaded is None:
            return None
        self._built = loaded.cid, build_tools(loaded, self.mount)
        return self._built[1]

    def _find_upstream(self) -> Upstream:
        """Return the server for credentials of callers. Raises ConfigError for a missing variable."""
        way = self.mount.way
        assert way is not None
        base: str = self.substitute(self.mount.base, "base")
        oauth: dict[str, str] = self.substitute(dict(self.mount.oauth), "oauth")
        described = describe_issuer(self.build(), orjson.loads(self.mount.credentials), oauth, base)
        own = {key: oauth.get(key, "") for key in ("client_id", "client_secret", "scope")}
        target = Http(base, issuer=described.token_url or described.issuer)
        return Upstream(
            self.mount.name,
            target,
            **own,
            described=described,
            way=way.name,
            fields=way.fields,
            audience=oauth.get("resource", ""),
            exchange=read_terms(oauth),
        )

    @property
    def _stored_name(self) -> str:
        return f"{UPSTREAMS}{self.mount.name}@{self.mount.digest}"

    # methods of the thread

    def _run(self) -> float:
        """Read the document; return the seconds until the next time."""
        try:
            self._refresh()
            self._tries, wait = 0, self.mount.refresh
        except PatchbayError as problem:
            self._tries += 1
            wait = self._record_failure(problem, self._tries)
        except Exception as problem:
            log.exception("the document of %s is read again", self.mount.name)
            self._tries += 1
            wait = self._record_failure(PatchbayError(f"{type(problem).__name__} in its thread"), self._tries)
        return wait * random.uniform(1 - JITTER, 1 + JITTER)

    def _close(self) -> None:
        if "connection" in self.__dict__:
            self.connection.close()

    def _refresh(self) -> None:
        """Read the document; store it and compare its operations with the pins when it differs from the last one."""
        before = self._read
        api, url = self._read_document()
        if api is not None:
            data = orjson.dumps({"url": url, "document": api.document})
            store = self._context.store
            loaded = LoadedApi(store.blobs.put(data), url, api.document)
            tools = build_tools(loaded, self.mount)
            if self._loop.ending.is_set():
                return
            # The pins first: no process serves an operation before it is compared with them.
            is_pinned_anew = self._observe(tools)
            is_new = store.names.get(self._stored_name) != loaded.cid
            if is_new:
                store.names.move({self._stored_name: loaded.cid}, AUTHOR, f"{self.mount.name} has another document")
            if is_new or is_pinned_anew:
                self._context.announce()
        if api is not None or self.health.state != "up":
            version = self._describe_version(api)
            self.health = Health("up", revision=version, speaks=version)
        self.state_known.set()
        if before is None:
            log.info("the document of %s was read", self.mount.name)

    def _describe_version(self, api: Api | None) -> str:
        document = api.document if api is not None else (found.document if (found := self.last()) else {})
        return f"OpenAPI {document.get('openapi') or document.get('swagger') or ''}".strip()

    def _observe(self, tools: ApiTools) -> bool:
        """Compare the operations with the pins; return whether the pins changed."""
        if self.changes is None or not self._is_current:
            return False
        # Operations that another selection adds are at first sight, because the operator has just selected them.
        selection = sha256(repr(self.mount.selection).encode()).hexdigest()[:16]
        return observe(
            *(self._context.store, self.mount.name, list_entries(tools), self.changes, AUTHOR),
            source_of=lambda key: "" if key == INTRODUCTION else selection,
        )

    def _read_document(self) -> tuple[Api | None, str]:
        """Return the document and its URL; no document when it is the one that was read last."""
        if self.mount.place == "cid":
            url = f"cid://{self.mount.document}"
            data = self._context.store.blobs.get(self.mount.document)
            return self._parse_changed(data, url, _read_nothing), url
        if self.mount.place == "file":
            path = self._find_file()
            data, read = read_api_file(path, MAX_DOCUMENT_BYTES), read_beside(path, MAX_DOCUMENT_BYTES)
            return self._parse_changed(data, path.as_uri(), read), path.as_uri()
        url = self._substituted_document()
        with ApiClient(
            *(self._named_urls(), self._headers(), READ_SECONDS, MAX_DOCUMENT_BYTES),
            whole_time=READ_SECONDS,
            setting=SETTING,
        ) as client:
            if self._read is not None:
                found = self._read[0]
                data = client.send(HttpRequest("GET", found)).body
                return self._parse_changed(data, found, fetch_beside(client, found, MAX_DOCUMENT_BYTES)), found
            api, found = fetch_api(url, client)
            self._read = found, ""
            read = fetch_beside(client, found, MAX_DOCUMENT_BYTES)
            return Api(include_remote_parts(api.document, found, read), mask_url(found)), found

    def _parse_changed(self, data: bytes, url: str, read: Read) -> Api | None:
        digest = sha256(data).hexdigest()
        if self._read == (url, digest):
            return None
        api = parse_whole_api(data, mask_url(url), url, read)
        # Parts of other documents may change alone, so such a document is read whole each time.
        self._read = url, digest if not api.document.keys() & {PARTS, LOST_REFERENCES} else ""
        return api

    def _find_file(self) -> Path:
        path = Path(substitute_env_vars(self.mount.document, self.environ, self.mount.name, "document")).expanduser()
        return path if path.is_absolute() else ((self._context.folder or Path()) / path).absolute()

    def _substituted_document(self) -> str:
        return substitute_env_vars(self.mount.document, self.environ, self.mount.name, "document")

    def _named_urls(self) -> tuple[str, ...]:
        base = substitute_env_vars(self.mount.base, self.environ, self.mount.name, "base")
        document = self._substituted_document() if self.mount.place == "url" else ""
        return tuple(filter(None, (document, base)))

    def _headers(self) -> dict[str, str]:
        found: dict[str, str] = self.substitute(dict(self.mount.headers), "headers")
        return found

    def _record_failure(self, problem: PatchbayError, tries: int) -> float:
        """Record the failure; return the seconds until the next attempt."""
        retry: float = min(MAX_RETRY_SECONDS, FIRST_RETRY_SECONDS * 2.0 ** min(tries - 1, 10))
        reason, variable = mask_secrets(problem.message, self.secrets)[:MAX_REASON_CHARACTERS], ""
        if isinstance(problem, UnsetVariable):
            reason, variable = describe_unset(problem), problem.variable
        since = self.health.since if self.health.state == "down" else time.time()
        self.health = Health("down", reason, tries=tries, retry=retry, since=since, variable=variable)
        self.state_known.set()
        log.warning("the document of %s: %s (try %d; the next one in %.1f s)", self.mount.name, reason, tries, retry)
        return retry


class ApiMount(ApiConfiguration):
    """A configuration that makes its own standing API."""

    def open(self, context: MountContext) -> StandingApi:
        """Return what maintains this API."""
        return StandingApi(self, context)


def list_entries(tools: ApiTools) -> dict[ItemKey, Wire]:
    """Return what is pinned of an API: its introduction and its operations."""
    listed: dict[ItemKey, Wire] = {INTRODUCTION: tools.introduction}
    return listed | {("tool", name): one.descriptor.wire for name, one in tools.tools.items()}


def _read_nothing(url: str) -> Any:
    """Refuse a reference of a document that has no place of its own. Raises DocumentError."""
    raise DocumentError("a document that is content of the hub has no other documents beside it")
