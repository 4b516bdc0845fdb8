"""Which connection a call of a mounted server uses.

* A server at a URL that keeps no session, as in 2026-07-28, gets all calls over the standing connection.
* Else the calls of a session of the hub have a connection of their own: the same process, or the same session of the
  server, for all of them, and for no other session (`"sessions": "each"`).
* Callers without a session share one for each principal: those of the hub's own principal use the standing connection.
  A question of a program does not name its call, so of two calls at once whose callers can be asked, the second one has
  a connection for itself.
* Calls of a script whose page shows the questions of tools, because its client does not, share one all the same: most
  tools ask nothing, and a process for each call would cost much. A question waits until no other call can be meant.
* With `"sessions": "shared"`, every caller uses the standing connection.
* A server that gets the credentials of each caller: a connection has the sign-in of one principal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from patchbay.activation import Call
from patchbay.caller_accounts.credentials import CallerCredential
from patchbay.client.connection.list_pages import APPS
from patchbay.client.errors import Unreachable
from patchbay.client.question_tasks import QUESTION_TASKS
from patchbay.upstreams.configuration import SHARED
from patchbay.upstreams.connections.call_connections import CallConnection, Key
from patchbay.upstreams.connections.standing_connection import StandingConnection

if TYPE_CHECKING:
    from patchbay.client.connection.connection import Connection

HUB_PRINCIPAL = "local"
"""The principal of unidentified callers: the hub's own."""

QUESTIONS_OF_CAPABILITY = {"elicitation": "elicitation", "sampling": "sampling", "roots": "list_roots"}
"""Client capabilities, with the client's names of the questions that they allow."""

NO_QUESTIONS = frozenset[str]()

TASK_QUESTIONS = frozenset({"elicitation", "sampling"})
"""The questions that a server before 2026-07-28 may ask as tasks."""


@dataclass(slots=True)
class ChosenConnection:
    """The connection of a call: the standing one, or a reserved one that may still be opening.

    `caller` tells questions for this caller from those for others. `clean` is set when the server works on nothing of
    the call any more.
    """

    caller: object
    connection: Connection | None = None
    reserved: CallConnection | None = None
    release: Callable[[], None] | None = None
    clean: bool = False

    @property
    def modern(self) -> bool:
        """Whether the open connection has a revision of 2026-07-28 or later."""
        return self.connection is not None and self.connection.modern


def find_questions(call: Call) -> frozenset[str]:
    """Return the questions that the caller can answer, by the names of the client."""
    capabilities = call.capabilities
    if not capabilities:
        return NO_QUESTIONS
    questions = frozenset(
        QUESTIONS_OF_CAPABILITY[name] for name in QUESTIONS_OF_CAPABILITY if isinstance(capabilities.get(name), Mapping)
    )
    # The hub answers with a task at once and asks the caller meanwhile, which needs no tasks of the caller.
    return questions | {QUESTION_TASKS} if questions & TASK_QUESTIONS else questions


def has_own_connection(standing: StandingConnection, call: Call) -> bool:
    """Whether the session of a call has a connection of its own, so that it needs no standing one."""
    return bool(call.session) and standing.call_connections.has(Key(call.principal, call.session))


def find_session_key(standing: StandingConnection, call: Call, sign_in: str = "") -> Key | None:
    """Return the key of the connection of the call's session, None for a call whose session has none of its own."""
    if not call.session or (standing.mount.sessions == SHARED and not sign_in):
        return None
    return Key(call.principal, call.session, sign_in)


def choose_connection(
    standing: StandingConnection, call: Call, credential: CallerCredential | None
) -> ChosenConnection:
    """Return the connection for a call. `credential` is the caller's own, None where the hub's is used.

    Raises ToolFailed at the maximum of connections, Unreachable without the standing connection.
    """
    shared, questions = standing.connection, find_questions(call)
    if credential is not None:
        keeps_state = shared is None or shared.keeps_state
        own = find_session_key(standing, call, credential.id) if keeps_state else None
        key = own or _make_key(standing, call, questions, credential.id)
        return _reserve(standing, call, key, questions, credential)
    own = find_session_key(standing, call)
    if own is not None and (shared is None or shared.keeps_state):
        return _reserve(standing, call, own, questions)
    if shared is None:
        raise Unreachable("it went away")
    if not shared.keeps_state or standing.mount.sessions == SHARED:
        return ChosenConnection(_name_caller(call), shared)
    return _choose_without_session(standing, shared, call, questions)


def _choose_without_session(
    standing: StandingConnection, shared: Connection, call: Call, questions: frozenset[str]
) -> ChosenConnection:
    asked = NO_QUESTIONS if shared.modern or call.asks_on_page else questions
    place = ChosenConnection(_name_caller(call), shared)
    # The standing connection has told the server that there are no roots.
    is_hub = call.principal == HUB_PRINCIPAL and not ("list_roots" in asked and standing.asks_for_roots)
    if is_hub and not asked:
        return place
    if is_hub and standing.asking.acquire(blocking=False):
        if not shared.serves_others_than(place.caller):
            place.release = standing.asking.release
            return place
        standing.asking.release()
    return _reserve(standing, call, _make_key(standing, call, asked, ""), questions)


def _reserve(
    standing: StandingConnection,
    call: Call,
    key: Key,
    questions: frozenset[str],
    credential: CallerCredential | None = None,
) -> ChosenConnection:
    client, roots = "", ""
    if "list_roots" in questions:
        client, roots = call.client, standing.roots.name_generation(call.principal, call.client)
    declared = questions | {APPS} if _declares_apps(call) else questions
    continuing = call.find_continuing()
    reserved = standing.call_connections.acquire(key, declared, client, roots, credential, continuing)
    return ChosenConnection(_name_caller(call), reserved=reserved)


def _declares_apps(call: Call) -> bool:
    extensions = call.capabilities.get("extensions")
    return isinstance(extensions, Mapping) and APPS in extensions


def _make_key(standing: StandingConnection, call: Call, questions: frozenset[str], sign_in: str) -> Key:
    """Return the key of a call without a session."""
    if call.asks_on_page:
        return Key(call.principal, "", sign_in, is_for_page=True)
    if "list_roots" not in questions:
        return Key(call.principal, "", sign_in, questions)
    roots = standing.roots.name_generation(call.principal, call.client)
    return Key(call.principal, "", sign_in, questions, call.client, roots)


def _name_caller(call: Call) -> object:
    """Return what calls have in common that may get each other's questions: the session, else all that is asked.

    A call that ended with a question is repeated with the same arguments by the same caller.
    """
    return call.session or (call.principal, call.target, call.arguments)
