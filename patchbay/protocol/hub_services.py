"""The services of a hub that the functions of methods use."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

from patchbay.access.approvals import Approvals
from patchbay.access.control import AccessControl
from patchbay.access.quotas import Quotas
from patchbay.access.secrets.records import Secrets
from patchbay.access.upstreams.sign_ins import UpstreamSignIns
from patchbay.access.upstreams.token_store import TokenStore
from patchbay.activity.recorder import Activity
from patchbay.catalogue.catalogue import Catalogue
from patchbay.catalogue.contents.ledger import Ledger
from patchbay.kinds.python.workers.worker_pool import WorkerPool
from patchbay.protocol.admission.sessions import Sessions
from patchbay.protocol.client_requests import States
from patchbay.protocol.jobs.jobs import Jobs
from patchbay.protocol.lists import Lists
from patchbay.protocol.results.result_limits import Keep
from patchbay.protocol.resuming import ResumedScripts
from patchbay.protocol.run_tool import Reference
from patchbay.protocol.running_requests import RunningRequests
from patchbay.protocol.schedules.scheduler import Scheduler
from patchbay.protocol.streams.subscriptions import Listeners
from patchbay.protocol.tasks.tasks import Tasks
from patchbay.protocol.webhooks.sending import Sender
from patchbay.protocol.webhooks.subscriptions import Webhooks
from patchbay.rooms.rooms import Rooms
from patchbay.settings import Settings

MAX_KNOWN_PRINCIPALS = 1024
"""Principals whose rule for large results is remembered."""


@dataclass(frozen=True, slots=True)
class HubServices:
    """The services that methods use."""

    catalogue: Catalogue
    settings: Settings
    sessions: Sessions
    lists: Lists
    listeners: Listeners
    states: States
    running: RunningRequests
    tasks: Tasks
    activity: Activity
    worker_pool: WorkerPool
    rooms: Rooms
    access: AccessControl
    quotas: Quotas
    approvals: Approvals
    secrets: Secrets
    upstream_tokens: TokenStore
    upstream_sign_ins: UpstreamSignIns
    webhooks: Webhooks
    webhook_sender: Sender
    scheduler: Scheduler
    jobs: Jobs
    scripts: ResumedScripts
    _references: dict[str, Reference] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def ledger(self) -> Ledger:
        """What each principal leaves in the store."""
        return self.catalogue.contents.results.ledger

    def keep(self, principal: str) -> Keep:
        """Return the function that stores the large results of a principal."""
        return partial(self.catalogue.contents.results.keep, principal=principal)

    def reference(self, principal: str) -> Reference:
        """Return the rule for large results of a principal: the function that stores them, and the limit."""
        found = self._references.get(principal)
        if found is None:
            if len(self._references) >= MAX_KNOWN_PRINCIPALS:
                self._references.clear()
            found = self._references[principal] = Reference(self.keep(principal), self.settings.inline_limit)
        return found
