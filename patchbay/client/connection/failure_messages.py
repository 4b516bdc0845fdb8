"""Failures as one sentence for people: what was tried, what the server answered, and what else was observed."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx2
import mcp_types as types
from mcp.client.auth import OAuthFlowError
from mcp.shared.exceptions import MCPError

from patchbay.client.addresses.cards import is_domain
from patchbay.client.addresses.targets import Http, Target, mask_urls
from patchbay.client.connection.programs.stdio import ChildProcess
from patchbay.client.connection.requests import OPENING_METHOD, RequestRun
from patchbay.client.errors import (
    CredentialsRefused,
    HttpRefused,
    McpFailure,
    NoMcpServer,
    NotServed,
    ServerTimeout,
    SignInNeeded,
    Unreachable,
)
from patchbay.client.network_failures import describe_failure
from patchbay.errors import PatchbayError

UNAUTHORIZED, NOT_FOUND = 401, 404
SYNTHETIC_MESSAGES = frozenset({"Server returned an error response", "Session terminated", "Not Found"})
"""What the official client says for an HTTP status of 400 or more without a JSON-RPC error in the body."""

WRONG_MEDIA_TYPE = "expected response with content type"
"""The begin of the sentence of the HTTP client about an answer that is no event stream."""

WEB_PAGE = "got 'text/html'"
"""The end of that sentence about a page for browsers."""


@dataclass(frozen=True, slots=True)
class FailureContext:
    """The facts about a failure.

    `status` is that of the last refused HTTP request, `refusal` the message of the JSON-RPC error of the first one.
    """

    target: Target
    run: RequestRun | None
    child: ChildProcess | None
    status: int | None
    has_auth: bool
    cause: BaseException | None
    refusal: str = ""

    @property
    def is_opening(self) -> bool:
        return self.run is not None and self.run.method == OPENING_METHOD

    @property
    def has_key(self) -> bool:
        """Whether the caller has given a key or a token."""
        return isinstance(self.target, Http) and self.target.has_authorization

    @property
    def details(self) -> str:
        """Observations beside the answer: the report about the program, or the HTTP status."""
        if self.child is not None:
            return f"; {self.child.report}"
        return f" ({self.run.http_refusal})" if self.run is not None and self.run.http_refusal else ""


def make_client_error(context: FailureContext, problem: BaseException) -> PatchbayError:
    """Convert any failure to an error of this package."""
    problem, target = unwrap_group(problem), context.target.label
    if isinstance(problem, PatchbayError):
        return problem
    if isinstance(problem, asyncio.CancelledError):
        return Unreachable(f"{target}: the connection was closed")
    if context.is_opening and context.status == UNAUTHORIZED and not context.has_auth:
        if context.has_key:
            return CredentialsRefused(f"{target} refuses the key or token in the header Authorization{context.details}")
        return SignInNeeded(f"{target} requires a sign-in or other credentials{context.details}")
    if isinstance(problem, TimeoutError):
        return _make_timeout_error(context)
    if isinstance(problem, MCPError):
        if problem.code == types.CONNECTION_CLOSED and not (context.run is not None and context.run.is_refused):
            return make_connection_lost_error(context, problem.error.message)
        if context.is_opening and problem.error.message in SYNTHETIC_MESSAGES:
            return make_refusal_error(context, problem)
        beside = context.details if context.is_opening else ""
        return McpFailure(problem.code, f"{target}: {problem.error.message}{beside}", problem.error.data)
    if isinstance(problem, OAuthFlowError):
        return Unreachable(f"{target}: signing in failed: {mask_urls(str(problem))}")
    if isinstance(problem, httpx2.HTTPStatusError):
        return _make_status_error(context, problem.response.status_code)
    words = mask_urls(str(problem)).removesuffix(".") or type(problem).__name__
    if isinstance(problem, httpx2.SSEError) and words.lower().startswith(WRONG_MEDIA_TYPE):
        return _make_media_type_error(context, words)
    if isinstance(problem, httpx2.ConnectError):
        words = describe_failure(problem, has_answered=False) + _describe_proxy(context.target)
    return Unreachable(f"{target} cannot be reached: {words}{context.details}")


def make_refusal_error(context: FailureContext, problem: MCPError) -> PatchbayError:
    """Make the error of a request that the server answered with an error, or with an answer that cannot be used."""
    run, error = context.run, problem.error
    assert run is not None
    if run.unusable_answer is not None:
        return Unreachable(f"{context.target.label}: {run.unusable_answer}")
    status = run.http_status
    if status is None:
        return McpFailure(problem.code, error.message, error.data)
    if error.message in SYNTHETIC_MESSAGES:
        words = describe_status(f"{run.http_refusal}", run.retry_after)
        return HttpRefused(problem.code, f"{context.target.label} answers {words}", status, run.retry_after)
    data = error.data
    if run.retry_after is not None and (data is None or isinstance(data, dict)):
        data = {"retryAfter": run.retry_after, **(data or {})}
    known = run.manual_input or f"{run.http_refusal}" in error.message
    return McpFailure(problem.code, error.message + ("" if known else f" ({run.http_refusal})"), data)


def describe_status(status: str, retry_after: int | None) -> str:
    """Return the words for an HTTP status such as `HTTP 503 Service Unavailable`, with what Retry-After asks for."""
    return status if retry_after is None else f"{status} and asks to wait {retry_after} s (Retry-After)"


def _make_status_error(context: FailureContext, status: int) -> Unreachable:
    """Make the error of a refusal that is not MCP."""
    target = context.target.label
    if status != NOT_FOUND:
        return Unreachable(f"{target} cannot be reached: it answers HTTP {status}")
    who = "this key gives" if context.has_key else "a caller without a key has"
    said = f". It says: {mask_urls(context.refusal).removesuffix('.')}" if context.refusal else ""
    return NotServed(
        f"{target} answers HTTP {NOT_FOUND}: no MCP server is there, or {who} no access to it{said}",
        bool(context.refusal),
    )


def _describe_proxy(target: Target) -> str:
    """Return the proxy of the environment through which requests to a target go; empty without one."""
    if not isinstance(target, Http) or not target.is_proxied:
        return ""
    parts, proxies = urlsplit(target.url), getproxies()
    name = next((one for one in (parts.scheme, "all") if one in proxies), "")
    if not name or proxy_bypass(parts.hostname or ""):
        return ""
    return f"; requests go through the proxy of {name.upper()}_PROXY, except to the hosts of NO_PROXY"


def _make_media_type_error(context: FailureContext, words: str) -> NoMcpServer:
    """Make the error of an answer that is no MCP; `words` is the sentence of the HTTP client about its media type."""
    target = context.target
    what = "it answers with a page for browsers" if words.endswith(WEB_PAGE) else f"{words[:1].lower()}{words[1:]}"
    hint = ""
    if isinstance(target, Http) and is_domain(target.url):
        hint = f"; the path of most MCP servers is /mcp: {mask_urls(target.url).rstrip('/')}/mcp"
    return NoMcpServer(f"{target.label}: no MCP server is there: {what}{hint}")


def _make_timeout_error(context: FailureContext) -> ServerTimeout:
    waited = f"within {context.run.seconds:g} s" if context.run is not None and context.run.seconds else "in time"
    method = context.run.method if context.run is not None else OPENING_METHOD
    hint = (
        " (a package that is fetched for the first time takes longer)" if context.child and context.is_opening else ""
    )
    return ServerTimeout(f"{context.target.label} did not answer {method} {waited}{hint}{context.details}")


def make_connection_lost_error(context: FailureContext, why: str) -> Unreachable:
    """Make the error of a request that was open when the connection ended."""
    if isinstance(context.cause, Unreachable):
        return context.cause
    is_repeated = context.cause is not None and str(context.cause).lower() in why.lower()
    cause = f": {mask_urls(str(context.cause))}" if context.cause is not None and not is_repeated else ""
    why = why.removeprefix("SSE stream ")
    if why != (event := why.removeprefix("failed: Server-sent event exceeded the ")):
        limit = event.removesuffix(" byte limit.")
        why = f"its answer is too large: an event of more than {limit} bytes; the limit is {limit} bytes"
    elif why.startswith("ended "):
        why = f"the stream {why}"
    return Unreachable(f"{context.target.label}: {why[:1].lower()}{why[1:]}{cause}{context.details}")


def unwrap_group(problem: BaseException) -> BaseException:
    """Find the first exception in a group that is not a cancellation."""
    while isinstance(problem, BaseExceptionGroup):
        inner = problem.exceptions
        problem = next((one for one in inner if not isinstance(one, asyncio.CancelledError)), inner[0])
    return problem
