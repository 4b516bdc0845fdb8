"""Assembles a hub from its settings, for every entry point: the web app, stdio, tests.

Opens the store, imports the boot image, starts the catalogue and creates the services. Knows no transport.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from patchbay import __version__, boot
from patchbay.access.approval_gate import ApprovalGate
from patchbay.access.approvals import Approvals
from patchbay.access.audit.chain import AuditChain, reached_cids
from patchbay.access.audit.refusals import Refusals
from patchbay.access.control import AccessControl
from patchbay.access.credentials.validity import Validity
from patchbay.access.given_key import place_given_key
from patchbay.access.hub_key import has_key, hub_id
from patchbay.access.limits.defaults import default_quotas
from patchbay.access.operator_token import OperatorToken
from patchbay.access.quota_shares import QuotaShares
from patchbay.access.quotas import Quotas
from patchbay.access.secrets.changes import SecretChanges
from patchbay.access.secrets.folder import open_secrets_folder
from patchbay.access.secrets.records import Secrets
from patchbay.access.secrets.variables import HubVariables
from patchbay.access.stored_key_id import open_key
from patchbay.access.upstreams.changes import CredentialChanges
from patchbay.access.upstreams.sign_ins import UpstreamSignIns
from patchbay.access.upstreams.token_store import TokenStore
from patchbay.activity.audited_calls import AuditedCalls
from patchbay.activity.recorder import Activity
from patchbay.assets import PACKAGE
from patchbay.catalogue.catalogue import Catalogue
from patchbay.catalogue.contents.ledger import STATE_BYTES, Limit
from patchbay.catalogue.contents.tallies import Tally
from patchbay.catalogue.needed_servers import NeededServers
from patchbay.catalogue.tool_state import COUNTED_SECONDS
from patchbay.coordination.bus_lag import KEPT_AS, BusLag
from patchbay.coordination.nodes import own_name
from patchbay.embeddings.selection import select
from patchbay.environments.environments import PackageEnvironments
from patchbay.errors import ConfigError
from patchbay.kind import Packages
from patchbay.kinds.program_places import program_places
from patchbay.kinds.python.workers.worker_pool import WorkerPool
from patchbay.kinds.registry import Handlers
from patchbay.pins.records import default_changes
from patchbay.protocol.admission.sessions import Sessions
from patchbay.protocol.client_requests import States
from patchbay.protocol.dispatch import Dispatcher
from patchbay.protocol.event_methods.webhook_checks import webhook_source, why_webhook_ended
from patchbay.protocol.hub_services import HubServices
from patchbay.protocol.jobs.jobs import Jobs
from patchbay.protocol.lists import Lists
from patchbay.protocol.resuming import ResumedScripts
from patchbay.protocol.run_tool import call_from_tool
from patchbay.protocol.running_requests import RunningRequests
from patchbay.protocol.schedules.calling import ScheduledCalls
from patchbay.protocol.schedules.scheduler import Scheduler
from patchbay.protocol.script_calls import ScriptCallMaker, run_saved_script
from patchbay.protocol.streams.subscriptions import Listeners
from patchbay.protocol.tasks.tasks import Tasks
from patchbay.protocol.webhooks.delivery import WebhookDelivery
from patchbay.protocol.webhooks.sending import Sender
from patchbay.protocol.webhooks.subscriptions import Webhooks
from patchbay.rooms.bounds import Bounds
from patchbay.rooms.record.canonical import Signer
from patchbay.rooms.rooms import Rooms
from patchbay.rooms.servers.mounting import GatewayContext
from patchbay.rooms.servers.room_servers import RoomServers
from patchbay.serving.hub_url import public_url
from patchbay.settings import OPEN, Settings, sign_ins, whole_environment
from patchbay.store import Store
from patchbay.stores import open_store
from patchbay.threads.server_shares import ServerShares
from patchbay.topics import BOOT, NAMES_CHANGED
from patchbay.upstreams.connections.standing_connections import StandingConnections
from patchbay.upstreams.standing import MountContext

log = logging.getLogger(__name__)

ROOMS, PACKAGES, QUOTA_SHARES, WEBHOOKS = "/rooms", "/packages", "/quota-shares", "/webhooks"
SCHEDULER, JOBS, CREDENTIALS, SECRET_CHANGES = "/scheduler", "/jobs", "/credentials", "/secrets"
ACCOUNT_CHANGES, SUSPENDED_SCRIPTS = "/accounts", "/suspended-scripts"
"""Names under which the hub holds its rooms, environments, shares of quotas, webhooks, schedules, jobs, the watches
over credentials and secrets, and suspended scripts, to close them when it stops; no server can have them.
"""


def assemble(
    settings: Settings,
    left: Callable[[], float],
    worker_pool: WorkerPool | None = None,
    needed: NeededServers | None = None,
) -> Dispatcher:
    """Return the dispatcher of a running hub: its servers are loaded and its folder is watched.

    `left` returns the seconds that running calls still have: infinite until the hub stops. `worker_pool` is the pool of
    processes for Python definitions, for a caller that closes the pool itself; the default pool ends with this process.
    `needed` are the servers whose programs, connections, packages and transforms begin now, all by default.

    Raises ConfigError, MissingBlob or CorruptBlob for wrong settings, a wrong data folder or a wrong boot image.
    """
    store, key = _open_store(settings)
    worker_pool, needed = worker_pool or _make_pool(settings), needed or NeededServers()
    upstream_tokens = TokenStore(store, key, public_url(settings), settings.mode == OPEN)
    variables = _find_variables(settings, store, key)
    connections = _open_mounts(settings, store, key, upstream_tokens, needed, variables)
    rooms = _open_rooms(settings, store, key)
    catalogue = _make_catalogue(settings, store, worker_pool, key, rooms, connections, needed, variables)
    catalogue.hub.left = left
    access = _access(settings, store, catalogue)
    quotas = _make_quotas(settings, catalogue, rooms)
    catalogue.hub.begin_call = ServerShares(settings.threads, quotas.begin_call).begin_call
    catalogue.hub.begin_origin_call = partial(quotas.begin_call, is_origin=True)
    shares = _shares(store, quotas, catalogue)
    audit = _audit(store, settings, rooms.signer, catalogue, quotas)
    approvals = Approvals(store, on_decision=audit.add_decision) if audit is not None else Approvals(store)
    catalogue.hub.gate = gate = ApprovalGate(approvals, store.bus, access.asks_for_approval)
    _load_servers(catalogue)
    activity = _make_activity(store, settings, audit)
    catalogue.hub.begin_script_call = ScriptCallMaker(activity, quotas.count_script_call, gate)
    sessions = _make_sessions(settings, key, catalogue)
    catalogue.hub.kept(ROOMS, lambda: rooms)
    dispatcher = Dispatcher(
        HubServices(
            catalogue=catalogue,
            settings=settings,
            sessions=sessions,
            lists=Lists(key, settings.page_size),
            listeners=Listeners(store, settings.keepalive, lambda: left() != float("inf"), sessions, access),
            states=States(key, store.journal),
            running=RunningRequests(),
            activity=activity,
            worker_pool=worker_pool,
            rooms=rooms,
            access=access,
            quotas=quotas,
            approvals=approvals,
            secrets=variables.stored,
            scripts=_resume_scripts(key, catalogue, access, activity, approvals, gate, upstream_tokens, left),
            upstream_tokens=upstream_tokens,
            upstream_sign_ins=UpstreamSignIns(store.journal, key, upstream_tokens),
            **_background_work(settings, catalogue, access, activity, left),
            **_deliver_webhooks(settings, store, key, access, catalogue),
        )
    )
    _report_load(shares, dispatcher)
    return dispatcher


def _load_servers(catalogue: Catalogue) -> None:
    """Load the servers, and watch their folder."""
    catalogue.start()
    # Another process may have read the folder first. Then `start` found no change, so load the servers here.
    catalogue.refresh()


def _resume_scripts(
    key: bytes,
    catalogue: Catalogue,
    access: AccessControl,
    activity: Activity,
    approvals: Approvals,
    gate: ApprovalGate,
    tokens: TokenStore,
    left: Callable[[], float],
) -> ResumedScripts:
    """Return what goes on with suspended scripts, once it is started; the end of the catalogue ends it.

    Scripts that are tools run from now on.
    """

    def find_account(principal: str, key: str) -> str:
        found = tokens.find_account(principal, key)
        return found.id if found is not None else ""

    scripts = ResumedScripts(key, catalogue, access, activity, approvals, gate, find_account, left)
    catalogue.hub.resumed_scripts = scripts
    catalogue.hub.begin_saved_script = run_saved_script
    catalogue.hub.kept(SUSPENDED_SCRIPTS, lambda: scripts)
    return scripts


def _make_activity(store: Store, settings: Settings, audit: AuditedCalls | None) -> Activity:
    """Return the record of calls, which sends traces and metrics if the settings say so. Raises ConfigError."""
    activity = Activity(store, settings, audit=audit)
    if not settings.otlp:
        return activity
    try:
        from patchbay.activity.telemetry import Telemetry
    except ImportError as problem:
        missing = "needs the extra `tracing`: pip install 'patchbay-hub[tracing]'"
        raise ConfigError("settings", "otlp", missing) from problem
    telemetry = Telemetry(settings.otlp, own_name(), activity.numbers)
    activity.send_telemetry(telemetry, names_callers=settings.otlp_callers == "ids")
    return activity


def _open_rooms(settings: Settings, store: Store, key: bytes) -> Rooms:
    """Return the rooms. What is mounted in them may name variables of the environment, and no secret of the hub."""
    gateway = GatewayContext(whole_environment(), hub_id(key), __version__, settings.mount_hosts)
    return Rooms(store, key, Bounds.of(settings), gateway)


def _make_sessions(settings: Settings, key: bytes, catalogue: Catalogue) -> Sessions:
    """Return the sessions, which know whether this process is the only one of its hub."""
    journal, ledger = catalogue.store.journal, catalogue.contents.results.ledger
    is_alone = settings.workers == 1 and not catalogue.store.is_shared
    return Sessions(key, journal, settings.session_hours, is_alone, ledger)


def _make_quotas(settings: Settings, catalogue: Catalogue, rooms: Rooms) -> Quotas:
    """Return the quotas of the hub, which limit the ledger too."""
    most_stored = Limit(settings.result_size, settings.stored_things)
    quotas = Quotas(lambda: catalogue.grants, default_quotas(settings), settings.workers, most_stored)
    catalogue.contents.results.ledger.limit_of = quotas.stored_limit
    rooms.ledger = catalogue.contents.results.ledger
    catalogue.hub.count_state = Tally(rooms.ledger, STATE_BYTES, COUNTED_SECONDS).count
    return quotas


def _access(settings: Settings, store: Store, catalogue: Catalogue) -> AccessControl:
    """Return the access control, which knows the credentials of the hub and limits what tools see; the end of the
    catalogue ends it.
    """
    validity = Validity(store, OperatorToken(None if settings.store == "memory" else settings.data))
    catalogue.hub.kept(CREDENTIALS, lambda: validity)
    if store.is_shared:
        validity.watch()  # tells other machines when a token of this machine's operator has ended
    access = AccessControl(catalogue, validity)
    catalogue.hub.visible_to = access.catalogue_for
    catalogue.hub.is_current = access.is_current
    return access


def _background_work(
    settings: Settings, catalogue: Catalogue, access: AccessControl, activity: Activity, left: Callable[[], float]
) -> dict[str, Any]:
    """Return the services for calls that no caller waits for: tasks, jobs and schedules."""
    tasks = Tasks(catalogue.store, settings.task_minutes, settings.tasks, left, catalogue.contents.results.ledger)
    jobs = Jobs(settings, catalogue, access, activity, tasks)
    scheduler = Scheduler(catalogue, ScheduledCalls(settings, catalogue, activity))
    catalogue.hub.kept(SCHEDULER, lambda: scheduler)
    catalogue.hub.kept(JOBS, lambda: jobs)
    return {"tasks": tasks, "jobs": jobs, "scheduler": scheduler}


def _make_pool(settings: Settings) -> WorkerPool:
    """Return the pool of processes for Python definitions."""
    return WorkerPool(
        settings.hosts,
        hidden=_hidden_folders(settings),
        idle=settings.hosts_idle,
        protections=settings.protections,
        kept=_kept_folders(settings),
    )


def _deliver_webhooks(
    settings: Settings, store: Store, key: bytes, access: AccessControl, catalogue: Catalogue
) -> dict[str, Any]:
    """Begin to deliver webhooks; return their subscriptions, and what sends the requests, as services."""
    webhooks, sender = Webhooks(store, key), Sender(settings.webhook_hosts)
    delivery = WebhookDelivery(webhooks, sender, partial(why_webhook_ended, access), partial(webhook_source, access))
    catalogue.hub.kept(WEBHOOKS, lambda: delivery)
    delivery.start()
    return {"webhooks": webhooks, "webhook_sender": sender}


def _shares(store: Store, quotas: Quotas, catalogue: Catalogue) -> QuotaShares:
    """Begin to share the quotas with the other processes; the end of the catalogue ends it."""
    shares = QuotaShares(store, quotas)
    shares.start()
    catalogue.hub.kept(QUOTA_SHARES, lambda: shares)
    return shares


def _report_load(shares: QuotaShares, dispatcher: Dispatcher) -> None:
    """Let the shares of this process say what it does now."""
    catalogue = dispatcher.services.catalogue
    lag = BusLag(catalogue.store)
    lag.start()
    catalogue.hub.kept(KEPT_AS, lambda: lag)
    shares.load = partial(_load_of, dispatcher, lag)


def _load_of(dispatcher: Dispatcher, lag: BusLag) -> dict[str, int | None]:
    """Return what this process does now, as `patchbay nodes` shows it."""
    calls = len(dispatcher.services.activity.running)
    return {"calls": calls, "listeners": dispatcher.listening, "lag_ms": lag.milliseconds()}


def _find_variables(settings: Settings, store: Store, key: bytes) -> HubVariables:
    """Return what configurations may name: secrets of the store, files of a folder, variables of the environment."""
    return HubVariables(whole_environment(), Secrets(store, key), open_secrets_folder(settings.secrets_dir))


def _watch_secrets(
    catalogue: Catalogue, variables: HubVariables, connections: StandingConnections, worker_pool: WorkerPool
) -> None:
    """Let servers use changed secrets: mounts connect anew, workers end after their calls."""

    def renew(servers: frozenset[str]) -> None:
        connections.renew(servers)
        for name in servers:
            worker_pool.restart(name)

    changes = SecretChanges(catalogue.store.bus, variables, renew)
    catalogue.hub.kept(SECRET_CHANGES, lambda: changes)
    changes.start()


def _watch_accounts(catalogue: Catalogue, connections: StandingConnections) -> None:
    """Let what uses the account of a caller at a mounted server end with it."""
    changes = CredentialChanges(catalogue.store.bus, connections.end_outdated_credentials)
    catalogue.hub.kept(ACCOUNT_CHANGES, lambda: changes)
    changes.start()


def _open_mounts(
    settings: Settings,
    store: Store,
    key: bytes,
    tokens: TokenStore,
    needed: NeededServers,
    variables: HubVariables,
) -> StandingConnections:
    """Return the connections of mounted servers, none of which is open yet. `tokens` are those of callers."""
    publish_change = partial(store.bus.publish, NAMES_CHANGED)
    return StandingConnections(
        MountContext(
            *(store, whole_environment(), hub_id(key), __version__, publish_change),
            *(default_changes(settings.mode), settings.servers, tokens, program_places(settings), variables),
        ),
        needed,
    )


def _hidden_folders(settings: Settings) -> tuple[Path, ...]:
    """Return the folders that no tool may read."""
    given = (Path(settings.secrets_dir).expanduser(),) if settings.secrets_dir else ()
    return settings.data, sign_ins(whole_environment()), *given


def _kept_folders(settings: Settings) -> tuple[Path, ...]:
    """Return the folders that no tool may change."""
    return settings.servers, PACKAGE, Path(sys.prefix)


def _make_catalogue(
    settings: Settings,
    store: Store,
    worker_pool: WorkerPool,
    key: bytes,
    rooms: Rooms,
    connections: StandingConnections,
    needed: NeededServers,
    variables: HubVariables,
) -> Catalogue:
    """Return the catalogue with all that its servers need: connections, worker processes, packages, rooms."""
    select(settings.embeddings)
    environments = PackageEnvironments(settings.data, whole_environment(), settings.packages, program_places(settings))
    taken = (*_hidden_folders(settings), *_kept_folders(settings))
    handlers = Handlers(
        *(worker_pool, settings.isolation, settings.memory, settings.folder_of, settings.writes, taken),
        environments,
        variables,
    )
    catalogue = Catalogue(
        store,
        settings,
        handlers=handlers,
        connections=connections,
        key=key,
        rooms=RoomServers(rooms),
        examine=handlers.examine,
        needed=needed,
    )
    catalogue.collector.sources.append(partial(reached_cids, store.journal))
    catalogue.hub.run_tool = call_from_tool
    catalogue.end_processes = partial(_end_processes, catalogue, worker_pool, connections)
    environments.listeners.append(partial(_rebuild_servers, catalogue))
    catalogue.hub.kept(PACKAGES, lambda: environments)
    _watch_secrets(catalogue, variables, connections, worker_pool)
    _watch_accounts(catalogue, connections)
    return catalogue


def _rebuild_servers(catalogue: Catalogue, packages: Packages) -> None:
    """Build the servers again whose packages have changed their state, because their problems depend on it."""
    catalogue.refresh()  # waits for a build that began before the change
    for server in catalogue.all():
        if server.packages is packages:
            catalogue.rebuild(server.name)


def _end_processes(catalogue: Catalogue, worker_pool: WorkerPool, connections: StandingConnections, name: str) -> None:
    """End the workers of a server, and the connection to a mounted one; the next call starts new ones."""
    worker_pool.restart(name)
    server = catalogue.find_any(name)
    if server is not None and server.standing is not None:
        connections.end(server.standing.mount)


def _audit(
    store: Store, settings: Settings, signer: Signer, catalogue: Catalogue, quotas: Quotas
) -> AuditedCalls | None:
    """Return the audit chain for the writer of records; None where the settings switch it off."""
    if not settings.is_audited:
        return None
    refusals = Refusals(settings.audit_refusals, lambda: quotas.processes)
    chain, keep = AuditChain(store.journal, signer), settings.audit_days * 24 * 3600
    return AuditedCalls(chain, lambda: catalogue.grants, keep, refusals)


def _open_store(settings: Settings) -> tuple[Store, bytes]:
    """Open the store, check the hub's key, and import the boot image; close the store when one of them fails.

    Log a warning when the data folder has the key of an earlier hub but its database is empty.
    """
    ran_before = settings.store != "memory" and has_key(settings.data)
    served = {"servers": str(settings.servers.resolve()), "boot": settings.boot}
    place_given_key(settings)
    store = open_store(settings.store, settings.data, served, settings.bus_address, settings.blobs)
    try:
        if ran_before and store.names.get(BOOT) is None:
            log.warning(
                "the data folder %s has the key of a hub that ran before, but its database is empty: variables, history"
                " and changed servers of that hub are missing. To have them back, stop this hub and put the database"
                " back from a backup",
                settings.data,
            )
        key = open_key(store, None if settings.store == "memory" else settings.data)
        image, where = boot.load_image(settings.boot, store)
        is_default = settings.boot == boot.DEFAULT_IMAGE
        boot.import_image(store, image, where, "start", f"boot image {settings.boot}", is_default)
    except BaseException:
        store.close()
        raise
    return store, key
