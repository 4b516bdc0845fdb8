"""A person with a browser at a running hub: signs in, approves a client, and goes where the client wants the answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import httpx2

from patchbay.access.keys import PersonalKeys
from patchbay.access.people.accounts import Accounts
from patchbay.settings import Settings
from patchbay.stores.sqlite import SqliteStore
from tests.serving.running import Hub
from tests.signing_in import HTML, PASSWORD, hidden_fields
from tests.waiting import BOUND


def invite(folder: Path, name: str) -> str:
    """The path of an invitation, as `patchbay invite` makes it while the hub runs."""
    store = SqliteStore(folder)
    try:
        return Accounts(Settings(data=folder), store.journal, PersonalKeys(store)).invitations.make(name)
    finally:
        store.close()


class PersonAtBrowser:
    """A person who has an account of a hub. `pages` are the pages that clients asked to open.

    `base` is the URL at which the browser sees the hub, `browser` how it names itself.
    """

    def __init__(self, hub: Hub, name: str, base: str = "", browser: str = "tests") -> None:
        self.base = base or f"http://127.0.0.1:{hub.port}"
        self.name = name
        self.pages: list[str] = []
        origin = "/".join(self.base.split("/", 3)[:3])
        self._browser = httpx2.Client(timeout=BOUND, headers={**HTML, "Origin": origin, "User-Agent": browser})
        key = invite(hub.folder / "data", name).partition("=")[2]
        form = {"key": key, "password": PASSWORD, "again": PASSWORD}
        assert self._browser.post(f"{self.base}/invitation", data=form).status_code == 303
        self._browser.cookies.clear()

    def close(self) -> None:
        self._browser.close()

    def cookies(self) -> list[tuple[str, str]]:
        """The names and values of the cookies of the browser."""
        return list(self._browser.cookies.items())

    def account(self) -> Any:
        answer = self._browser.get(f"{self.base}/account", headers={"Accept": "application/json"})
        assert answer.status_code == 200, answer.text
        return answer.json()

    def approve(self, url: str) -> str:
        """Open the page of an authorization request, sign in and allow it; return where the browser is led to."""
        self.pages.append(url)
        answer = self._browser.get(url)
        if answer.status_code == 303:
            page = self._browser.get(urljoin(url, answer.headers["location"]))
            form = {"name": self.name, "password": PASSWORD, **hidden_fields(page.text, "next")}
            answer = self._browser.post(f"{self.base}/login/password", data=form)
            assert answer.status_code == 303, answer.text
            answer = self._browser.get(urljoin(url, answer.headers["location"]))
        assert answer.status_code == 200, answer.text
        fields = {**hidden_fields(answer.text, "csrf", "request"), "decision": "allow"}
        answer = self._browser.post(f"{self.base}/oauth/authorize", data=fields)
        assert answer.status_code == 303, answer.text
        return str(answer.headers["location"])
