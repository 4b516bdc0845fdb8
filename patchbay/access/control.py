"""The access control of one hub: the rights of each sender now, and the catalogue as it may see it.

Without the variable `access`, and for credentials without scopes, every sender gets the catalogue itself: then access
control costs one comparison.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable

from patchbay.access.decisions import Decision, Object, Rights, rights_of
from patchbay.access.principals import Principal
from patchbay.boot.grants import Grants
from patchbay.catalogue.catalogue import Catalogue
from patchbay.catalogue.visibility.catalogue_view import CatalogueView
from patchbay.catalogue.visibility.visible_catalogue import VisibleCatalogue

MAX_SENDERS = 4096
"""Senders whose rights are remembered."""

MAX_VIEWS = 128
"""Views of the catalogue that are remembered, one for each set of rights."""


class AccessControl:
    """The rights of senders. Safe to use from many threads.

    `checks` say whether the credentials of a sender are still valid: each returns False for one that was revoked.
    """

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._known: dict[Principal, tuple[Grants | None, Rights, VisibleCatalogue]] = {}
        self._views: OrderedDict[str, CatalogueView] = OrderedDict()
        self._lock = threading.Lock()
        self.checks: list[Callable[[Principal], bool]] = []

    @property
    def has_grants(self) -> bool:
        """Whether the variable `access` limits senders."""
        return self._catalogue.grants is not None

    def catalogue_for(self, sender: Principal) -> VisibleCatalogue:
        """Return the catalogue as a sender may see it now."""
        if self._catalogue.grants is None and sender.scopes is None:
            return self._catalogue
        return self._look_up(sender)[2]

    def rights(self, sender: Principal) -> Rights:
        """Return what a sender may do now."""
        return self._look_up(sender)[1]

    def _look_up(self, sender: Principal) -> tuple[Grants | None, Rights, VisibleCatalogue]:
        """Return the present grants, and the rights and the catalogue that a sender has under them."""
        grants = self._catalogue.grants
        known = self._known.get(sender)
        if known is None or known[0] is not grants:
            if len(self._known) >= MAX_SENDERS:
                self._known = {}
            rights = rights_of(sender, grants)
            seen = self._catalogue if rights.is_unlimited else self.view(rights)
            known = self._known[sender] = grants, rights, seen
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

    def is_current(self, sender: Principal) -> bool:
        """Whether the credentials of a sender are still valid, as far as this hub itself can tell."""
        return all(check(sender) for check in self.checks)

    def unchanged(self, sender: Principal) -> Callable[[], bool]:
        """Return a function that says whether a sender's credentials are valid and its rights those of now."""
        now = self.rights(sender).digest
        return lambda: self.is_current(sender) and self.rights(sender).digest == now

    def view(self, rights: Rights) -> VisibleCatalogue:
        """Return the catalogue as some rights show it."""
        with self._lock:
            view = self._views.get(rights.digest)
            if view is None:
                view = self._views[rights.digest] = CatalogueView(self._catalogue, rights)
            self._views.move_to_end(rights.digest)
            while len(self._views) > MAX_VIEWS:
                self._views.popitem(last=False)
        return view
