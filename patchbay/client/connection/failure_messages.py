"""What went wrong, as one sentence for people: what was tried, what was heard, what was seen of it.

Sources: REQUIREMENTS JN-1 (shown on failure); THREATS X18, X20.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import mcp_types as types
from mcp.client.auth import OAuthFlowError
from mcp.shared.exceptions import MCPError

from patchbay.client.addresses.targets import Reach, masked_urls
from patchbay.client.connection.requests import RequestRun
from patchbay.client.connection.stdio import Child
from patchbay.client.errors import McpFailure, ServerTimeout, SignInNeeded, Unreachable
from patchbay.errors import PatchbayError

OPENING = "initialize"
UNAUTHORIZED = 401


@dataclass(frozen=True, slots=True)
class FailureContext:
    """What is known when something goes wrong. `status` is that of the last refused HTTP request."""

    reach: Reach
    run: RequestRun | None
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


def as_client_error(scene: FailureContext, problem: BaseException) -> PatchbayError:
    """Any failure as one of this package."""
    problem, reach = innermost(problem), scene.reach.described
    if isinstance(problem, PatchbayError):
        return problem
    if isinstance(problem, asyncio.CancelledError):
        return Unreachable(f"{reach}: the connection was closed")
    if scene.opening and scene.status == UNAUTHORIZED and not scene.signs_in:
        return SignInNeeded(f"{reach} wants a sign-in or other credentials{scene.seen}")
    if isinstance(problem, TimeoutError):
        return _overdue(scene)
    if isinstance(problem, MCPError):
        if problem.code == types.CONNECTION_CLOSED:
            return connection_lost(scene, problem.error.message)
        beside = scene.seen if scene.opening else ""
        return McpFailure(problem.code, f"{reach}: {problem.error.message}{beside}", problem.error.data)
    if isinstance(problem, OAuthFlowError):
        return Unreachable(f"{reach}: signing in failed: {masked_urls(str(problem))}")
    words = masked_urls(str(problem)) or type(problem).__name__
    return Unreachable(f"{reach} cannot be reached: {words}{scene.seen}")


def _overdue(scene: FailureContext) -> ServerTimeout:
    waited = f"within {scene.run.seconds:g} s" if scene.run is not None and scene.run.seconds else "in time"
    method = scene.run.method if scene.run is not None else OPENING
    hint = " (a package that is fetched for the first time takes longer)" if scene.child and scene.opening else ""
    return ServerTimeout(f"{scene.reach.described} did not answer {method} {waited}{hint}{scene.seen}")


def connection_lost(scene: FailureContext, why: str) -> Unreachable:
    """The failure of what was under way when a connection ended."""
    if isinstance(scene.cause, Unreachable):
        return scene.cause
    told_already = scene.cause is not None and str(scene.cause).lower() in why.lower()
    cause = f": {masked_urls(str(scene.cause))}" if scene.cause is not None and not told_already else ""
    return Unreachable(f"{scene.reach.described}: {why[:1].lower()}{why[1:]}{cause}{scene.seen}")


def innermost(problem: BaseException) -> BaseException:
    """The first real failure in a group of them."""
    while isinstance(problem, BaseExceptionGroup):
        inner = problem.exceptions
        problem = next((one for one in inner if not isinstance(one, asyncio.CancelledError)), inner[0])
    return problem
