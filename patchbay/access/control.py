"""The access control of one hub: the rights of each sender now, and the catalogue as it may see it.

Without the variable `access`, and for credentials without scopes, every sender gets the catalogue itself: then access
control costs one comparison.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable

from patchbay.access.credentials.validity import Validity
from patchbay.access.decisions import Decision, Object, Rights, rights_of
from patchbay.access.principals import LOCAL_ID, Principal
from patchbay.boot.grants import Grants
from patchbay.catalogue.catalogue import Catalogue
from patchbay.catalogue.visibility.catalogue_view import CatalogueView
from patchbay.catalogue.visible_catalogue import VisibleCatalogue
from patchbay.kind import Audience
from patchbay.topics import ACCESS_ENDED

MAX_SENDERS = 4096
"""Senders whose rights are remembered."""

MAX_VIEWS = 128
"""Views of the catalogue that are remembered, one for each set of rights (and principal, where that counts)."""


class AccessControl:
    """The rights of senders. Safe to use from many threads.

    `validity` says whether credentials are still good; without it all are.
    """

    def __init__(self, catalogue: Catalogue, validity: Validity | None = None) -> None:
        self._catalogue = catalogue
        self.validity = validity
        self._known: dict[Principal, tuple[Grants | None, bool, Rights, VisibleCatalogue]] = {}
        self._views: OrderedDict[tuple[str, str], CatalogueView] = OrderedDict()
        self._served: object = None
        self._audience: Audience | None = None
        self._lock = threading.Lock()

    @property
    def has_grants(self) -> bool:
        """Whether the variable `access` limits senders."""
        return self._catalogue.grants is not None

    def catalogue_for(self, sender: Principal) -> VisibleCatalogue:
        """Return the catalogue as a sender may see it now."""
        if self._catalogue.grants is None and sender.scopes is None and not self._differs_by_caller():
            return self._catalogue
        return self._look_up(sender)[3]

    def catch_up(self) -> None:
        """Bring the servers and the grants of this process up to date, before an answer no that ends something."""
        self._catalogue.catch_up()

    def rights(self, sender: Principal) -> Rights:
        """Return what a sender may do now."""
        return self._look_up(sender)[2]

    def _differs_by_caller(self) -> bool:
        """Whether a served server shows different entries to callers with the same rights."""
        served = self._catalogue.served
        if served is not self._served:
            self._audience = next((one.audience for one in served.values() if one.audience is not None), None)
            self._served = served
        return self._audience is not None and self._audience.is_needed

    def _look_up(self, sender: Principal) -> tuple[Grants | None, bool, Rights, VisibleCatalogue]:
        """Return the present grants, and the rights and the catalogue that a sender has under them."""
        grants, differs = self._catalogue.grants, self._differs_by_caller()
        known = self._known.get(sender)
        if known is None or known[0] is not grants or known[1] is not differs:
            if len(self._known) >= MAX_SENDERS:
                self._known = {}
            rights = rights_of(sender, grants)
            is_whole = rights.is_unlimited and not differs
            seen = self._catalogue if is_whole else self.view(rights, sender.id if differs else "")
            known = self._known[sender] = grants, differs, rights, seen
        return known

    def decide(self, sender: Principal, action: str, about: Object) -> Decision:
        """Decide whether a sender may do an action on an object now."""
        return self.rights(sender).decide(action, about)

    def asks_for_approval(self, sender: Principal, server: str, entry: str) -> bool:
        """Whether the grants of a sender ask for an approval of calls of a destructive tool."""
        grants = self._catalogue.grants
        return grants is not None and grants.asks and self.rights(sender).asks_for_approval(server, entry)

    def is_administrator(self, sender: Principal) -> bool:
        """Whether a sender may operate the hub: the operator, and principals with the grant `operate`."""
        return self.rights(sender).operates

    def may_change_toolset(self, sender: Principal, name: str) -> bool:
        """Whether a sender may make and change the toolset of a name: administrators, and by a grant on this name."""
        return self.rights(sender).operates_toolset(name)

    def is_current(self, sender: Principal) -> bool:
        """Whether the credentials of a sender are still valid, as far as this hub itself can tell."""
        return self.validity is None or self.validity.is_good(sender)

    def may_listen(self, sender: Principal) -> bool:
        """Whether what only listens may go on: `is_current`, and a token of an outside issuer has not expired."""
        return self.is_current(sender) and (self.validity is None or not self.validity.has_expired(sender))

    def end_topics(self, sender: Principal) -> list[str]:
        """Return the topics that tell an open stream to ask `is_current` again; empty where nothing can end."""
        if self.validity is None or (sender.id == LOCAL_ID and not sender.credential):
            return []
        self.validity.watch()
        return [ACCESS_ENDED]

    def unchanged(self, sender: Principal) -> Callable[[], bool]:
        """Return a function that says whether a sender's credentials are valid and its rights those of now."""
        now = self.rights(sender).digest
        return lambda: self.is_current(sender) and self.rights(sender).digest == now

    def view(self, rights: Rights, principal: str = "") -> VisibleCatalogue:
        """Return the catalogue as some rights show it, to a principal if servers show different entries to callers."""
        key = (rights.digest, principal)
        with self._lock:
            view = self._views.get(key)
            if view is None:
                view = self._views[key] = CatalogueView(self._catalogue, rights, principal)
            self._views.move_to_end(key)
            while len(self._views) > MAX_VIEWS:
                self._views.popitem(last=False)
        return view
