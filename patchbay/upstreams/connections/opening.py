"""How the connections of one mount are opened: the target with its credentials, the era, and what is declared.

The standing connection declares every question and the extension for apps, so that the server lists everything for
callers that can answer and show apps. A connection for callers declares what they can answer, and apps if they do.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from patchbay.caller_accounts.credentials import CallerCredential
from patchbay.client.addresses.targets import Era, Http, Stdio, Target
from patchbay.client.auth.configured import make_machine_sign_in
from patchbay.client.auth.methods import SignIn, SuppliedCredential
from patchbay.client.connection.list_pages import APPS, DECLARED_APPS
from patchbay.client.connection.programs.environment import make_launch_environment
from patchbay.client.errors import McpFailure
from patchbay.errors import MethodNotFound, PatchbayError
from patchbay.processes.confinement.program_folders import list_account_folders, remove_own_folder
from patchbay.processes.confinement.programs import ProgramConfinement
from patchbay.processes.egress.egress_records import EgressRecords
from patchbay.settings import sign_ins
from patchbay.upstreams.configuration import START_SECONDS, Mount
from patchbay.upstreams.connections.call_connections import CallConnection
from patchbay.upstreams.connections.caller_accounts import MountAccounts
from patchbay.upstreams.remembered_roots import RememberedRoots
from patchbay.upstreams.requested_hosts import add_requested_hosts
from patchbay.upstreams.standing import MountContext

if TYPE_CHECKING:
    from patchbay.client.connection.connection import Connection

Listener = Callable[[str, Mapping[str, Any]], None]


class Opener:
    """Opens the connections of one mount. `listener` gets notifications, `on_renewed` is called for a new session."""

    def __init__(self, mount: Mount, context: MountContext, listener: Listener, on_renewed: Callable[[], None]) -> None:
        self._mount = mount
        self._context = context
        self._listener = listener
        self._on_renewed = on_renewed
        self.roots: RememberedRoots = context.roots
        self.reach: Target | None = mount.direct_reach
        """How it was reached last; before that, how the address alone reaches it, None for a profile."""
        self.accounts: MountAccounts | None = None
        """The credentials of callers, None for a mount that uses the hub's."""
        self.asks_for_roots = False
        """Whether the server has asked for roots of the standing connection, as it then does of each other one."""
        self.variables: Mapping[str, str] | None = None
        """What the configuration could name at the last attempt to open a connection; None before the first one."""
        self._records = EgressRecords(keep=partial(add_requested_hosts, context.store.journal, mount.name))
        self._callers: dict[str, tuple[str, str]] = {}
        """The principal and the id of the accounts with whose credentials processes were started, by digest."""
        if mount.has_caller_credentials:
            self.accounts = MountAccounts(mount, context.variables, context.credentials)

    @property
    def confinement(self) -> ProgramConfinement | None:
        """What the program of the mount may do; None where it has all rights of this process."""
        programs = self._context.programs
        if programs is None:
            return None
        mount = self._mount
        own = (mount.name, programs, mount.permissions, self._context.environ)
        return ProgramConfinement(*own, program=mount.program, records=self._records, file=mount.file)

    @property
    def is_program(self) -> bool:
        """Whether the hub starts the server."""
        return isinstance(self.reach, Stdio)

    def open(
        self,
        questions: Iterable[str] | None = None,
        era: Era | None = None,
        credential: CallerCredential | None = None,
        reserved: CallConnection | None = None,
    ) -> Connection:
        """Open a connection that declares these questions, or all of them; APPS among them declares the extension.

        `credential` is that of a caller, `reserved` says whose roots answer questions between calls. Raises
        PatchbayError.
        """
        environ, variables = self._context.environ, self._context.variables(self._mount.name)
        self.variables = variables
        # The official SDK takes half a second to load; a hub without mounts does not load it.
        connections = import_module("patchbay.client.connection.connection")
        target = self.reach = self._mount.reach(variables)
        signin: SignIn | None = None
        if credential is not None and credential.source is not None and isinstance(target, Http):
            signin = SuppliedCredential(credential.source)
        elif credential is not None and isinstance(target, Stdio):
            target = replace(target, env={**target.env, **credential.environment})
        elif isinstance(target, Http):
            signin = make_machine_sign_in(target, sign_ins(environ))
        declared = connections.QUESTIONS | {APPS} if questions is None else frozenset(questions)
        connection: Connection = connections.Connection.open(
            target,
            era=era or self._mount.era,
            version=self._context.version,
            start_timeout=START_SECONDS,
            questions=declared - {APPS},
            extensions=DECLARED_APPS if APPS in declared else None,
            ask=partial(self._answer_between_calls, reserved),
            listener=self._listener,
            on_renewed=self._on_renewed,
            environ=make_launch_environment(environ),
            signin=signin,
            confinement=self._confine_one(credential),
        )
        return connection

    def _confine_one(self, credential: CallerCredential | None) -> ProgramConfinement | None:
        """Return the confinement of one process, with records of its own beside those of the mount.

        A process with the credential of a caller has a folder that no process of another caller reads or changes.
        """
        confinement = self.confinement
        if confinement is None:
            return None
        account = ""
        if credential is not None and credential.environment:
            account = credential.account
            self._callers[account] = credential.principal, credential.id
        return replace(confinement, records=EgressRecords(self._records), account=account)

    def remove_ended_folders(self, used: Collection[str]) -> None:
        """Remove the folders of callers whose account has ended, but not of accounts that are `used`, by digest."""
        confinement, accounts = self.confinement, self.accounts
        if confinement is None or accounts is None or not self.is_program:
            return
        ended: Iterable[str] = list_account_folders(confinement.own_folder).keys() - used
        if not ended:
            return
        try:
            ended = accounts.list_ended(ended, self._callers)
        except PatchbayError:  # a missing variable: which accounts there are is not known now
            return
        for account in ended:
            self._callers.pop(account, None)
            remove_own_folder(replace(confinement, account=account).own_folder)

    def open_for_call(self, reserved: CallConnection, era: Era | None) -> Connection:
        """Open a connection for callers. Raises PatchbayError."""
        connection = self.open(reserved.questions, era, reserved.credential, reserved)
        reserved.expects_roots = self.asks_for_roots
        return connection

    def _answer_between_calls(
        self, reserved: CallConnection | None, method: str, params: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Answer a question that belongs to no call: with the roots of the client of the connection.

        The standing connection (`reserved` is None) has no roots, because each caller may have other ones.
        """
        if method != "roots/list":
            raise McpFailure(MethodNotFound.code, f"no call is running that could answer {method}")
        if reserved is None:
            self.asks_for_roots = True
            return {"roots": []}
        known = "list_roots" in reserved.questions
        found = self.roots.find(reserved.key.principal, reserved.client) if known else None
        if found is None:
            reserved.is_refused_roots = known
            raise McpFailure(MethodNotFound.code, "the roots of the caller are not known between its calls")
        return found
