"""Limits wrong passwords, so that a password cannot be guessed and its owner is not locked out by others.

Wrong passwords count for a name at an address, for the address, and for the name at all addresses, each apart. A
browser in which the person has signed in before counts by itself, so that wrong passwords from elsewhere, also from the
same address, do not stop it. Behind a proxy the address is that of the client (setting `trusted_proxies`).
Source: OWASP, "Slow Down Online Guessing Attacks with Device Cookies".
"""

from __future__ import annotations

import ipaddress
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import ClassVar

from patchbay.errors import Refused

MAX_WRONG_PASSWORDS, WRONG_PASSWORD_SECONDS = 10, 300.0
"""Wrong passwords of one name from one place within this number of seconds; later ones are not compared."""

MAX_WRONG_OF_ADDRESS = 60
"""The same for all names that one address tries."""

MAX_WRONG_OF_NAME = 200
"""The same for one name from all addresses, except browsers that are known."""

MAX_TRACKED = 20_000


class TooManyWrongPasswords(Refused):
    """Too many wrong passwords came from here."""

    status = 429
    headers: ClassVar = {"Retry-After": f"{WRONG_PASSWORD_SECONDS:.0f}"}

    def __init__(self) -> None:
        super().__init__(
            "too many wrong passwords came for this name or from your address: try again in"
            f" {WRONG_PASSWORD_SECONDS / 60:.0f} minutes, or use a passkey or a browser in which you signed in before"
        )


class SignInThrottle:
    """Counts tries by place. Safe to use from many threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._tries: OrderedDict[tuple[str, str], deque[float]] = OrderedDict()

    def begin(self, name: str, address: str, known_browser: str = "") -> None:
        """Count a try before the password is compared. Raises TooManyWrongPasswords.

        `known_browser` identifies a browser in which this person has signed in before.
        """
        now = self._clock()
        with self._lock:
            places = _places(name, address, known_browser)
            for place, most in places:
                times = self._tries.setdefault(place, deque())
                self._tries.move_to_end(place)
                while times and now - times[0] >= WRONG_PASSWORD_SECONDS:
                    times.popleft()
                if len(times) >= most:
                    raise TooManyWrongPasswords
            for place, _ in places:
                self._tries[place].append(now)
            while len(self._tries) > MAX_TRACKED:
                self._tries.popitem(last=False)

    def succeed(self, name: str, address: str, known_browser: str = "") -> None:
        """Forget the tries of this name and one try of the address: the password was right."""
        with self._lock:
            (own, _), *rest = _places(name, address, known_browser)
            self._tries.pop(own, None)
            for place, _ in rest:
                if self._tries.get(place):
                    self._tries[place].pop()


def _places(name: str, address: str, known_browser: str) -> list[tuple[tuple[str, str], int]]:
    if known_browser:
        return [((name, f"browser {known_browser}"), MAX_WRONG_PASSWORDS)]
    network = _network(address)
    places = [((name, network), MAX_WRONG_PASSWORDS), (("", network), MAX_WRONG_OF_ADDRESS)]
    return [*places, ((name, ""), MAX_WRONG_OF_NAME)] if name else places


def _network(address: str) -> str:
    """The address, or the /64 of an IPv6 address: one customer of a provider has all of it."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    return str(found) if found.version == 4 else str(ipaddress.ip_network(f"{found}/64", strict=False))
