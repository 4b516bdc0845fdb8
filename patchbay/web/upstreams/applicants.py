"""Who connects an account at a mounted server: the person of the browser, or the operator; an administrator also for a
key.

A link proves nothing: the page connects the account of the person who opens it. The operator's own cookie does not
come with the answer of another site (`SameSite=Strict`), so that the answer is bound to the browser by a cookie of its
own.
Sources: RFC 6265bis (`__Host-`, `SameSite`); MCP specification 2025-11-25, client/elicitation (identifying the user).
"""

from __future__ import annotations

from collections.abc import Mapping

from flask import Response, request

from patchbay.access.keys import PersonalKeys
from patchbay.access.principals import KEY_IDS, LOCAL_ID, OPERATOR_ID
from patchbay.access.session_cookies import cookie_name, cookie_path
from patchbay.access.sign_in_settings import has_sign_in
from patchbay.access.upstreams.sign_ins import SIGN_IN_SECONDS, Applicant, make_browser_secret
from patchbay.errors import InvalidParams
from patchbay.web.operator.operators import NotOperator
from patchbay.web.people.browsers import Browsers, is_over_tls, public_base_url
from patchbay.web.site.site import Site


class Applicants:
    """The applicants of the current requests."""

    def __init__(self, site: Site, browsers: Browsers, keys: PersonalKeys) -> None:
        self._site = site
        self._browsers = browsers
        self._keys = keys

    def find(self, wanted: str, browser: str = "") -> Applicant | None:
        """Return who connects, for the principal `wanted` ("": the caller); None for a browser without a session.

        Raises NotOperator or InvalidParams for the principal of someone else.
        """
        person = self._person()
        by = person or self._operator()
        if not by:
            return None
        if wanted in ("", by):
            return Applicant(by, by, browser, public_base_url())
        self._site.operators.check_operator()
        names = {KEY_IDS + key.name for key in self._keys.all()}
        if wanted not in names:
            raise InvalidParams(f"an administrator connects accounts for keys only: there is no key {wanted[:80]!r}")
        return Applicant(by, wanted, browser, public_base_url())

    def require(self, wanted: str, browser: str = "") -> Applicant:
        """Like `find`, for a change. Raises NotOperator (401) for a browser without a session.

        To act for a key is an act of the operator, so that it raises ProofTooOld as such acts do.
        """
        found = self.find(wanted, browser)
        if found is None:
            raise NotOperator("sign in at /login first: accounts are connected for people and for the operator")
        if found.principal != found.by:
            self._site.operators.check_new_proof(self._site.operators.check_operator())
        return found

    def answering(self, by: str, principal: str) -> Applicant:
        """Return the applicant of an answer for a sign-in that `by` began for `principal`.

        The session of a person comes with the answer. That of the operator does not; the cookie of the sign-in does.
        """
        person = self._person() or (by if by in (LOCAL_ID, OPERATOR_ID) else "")
        return Applicant(person, principal, request.cookies.get(self._cookie(), ""), public_base_url())

    def check_form(self, fields: Mapping[str, str]) -> None:
        """Check that a form is the hub's own, sent in the session of the applicant. Raises Refused, SignedOut."""
        if self._person():
            self._browsers.check_form(fields)
        else:
            self._site.operators.check_use(fields)

    def csrf(self) -> str:
        """The value for the field `csrf` of a form for the applicant."""
        found = self._browsers.find() if has_sign_in(self._site.settings) else None
        return self._site.operators.csrf() if found is None else self._browsers.csrf(found[1])

    def remember_browser(self, response: Response) -> str:
        """Add the cookie that binds a sign-in to this browser; return its value."""
        value = make_browser_secret()
        response.set_cookie(
            self._cookie(),
            value,
            max_age=int(SIGN_IN_SECONDS),
            path=cookie_path(self._site.settings.path_prefix),
            secure=is_over_tls(),
            httponly=True,
            samesite="Lax",
        )
        return value

    def forget_browser(self, response: Response) -> None:
        """Delete the cookie of a sign-in."""
        response.delete_cookie(
            self._cookie(),
            path=cookie_path(self._site.settings.path_prefix),
            secure=is_over_tls(),
            httponly=True,
            samesite="Lax",
        )

    def _person(self) -> str:
        found = self._browsers.find() if has_sign_in(self._site.settings) else None
        return "" if found is None else found[0].principal.id

    def _operator(self) -> str:
        """The id of the operator's principal; empty if the request does not prove the operator."""
        return self._site.sender.id if self._site.operators.lenient_proof().is_operator else ""

    def _cookie(self) -> str:
        settings = self._site.settings
        return cookie_name("patchbay-upstream", settings.port, is_over_tls(), settings.path_prefix)
