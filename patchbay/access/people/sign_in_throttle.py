"""Limits wrong passwords, so that a password cannot be guessed and its owner is not locked out by others.

Wrong passwords count for a name at an address, for the address, and for the name at all addresses, each apart. After
many for one name, each further network has one try, so that a few strangers with some addresses do not stop the person;
strangers with hundreds of networks do stop its new browsers. A browser in which the person has signed in before counts
by itself, so that wrong passwords from elsewhere, also from the same address, do not stop it. Behind a proxy the
address is that of the client (setting `trusted_proxies`).
Source: OWASP, "Slow Down Online Guessing Attacks with Device Cookies".
"""

from __future__ import annotations

import ipaddress
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import ClassVar

from patchbay.errors import Refused
from patchbay.limits import RecentTimes

MAX_WRONG_PASSWORDS, WRONG_PASSWORD_SECONDS = 10, 300.0
"""Wrong passwords of one name from one place within this number of seconds; later ones are not compared."""

MAX_WRONG_OF_ADDRESS = 60
"""The same for all names that one address tries."""

MAX_WRONG_OF_NAME = 200
"""The same for one name from all addresses, except browsers that are known: from then on tries are slowed down."""

MAX_SLOWED_OF_NETWORK = 1
"""Slowed tries of one name from one wide network: /24 of IPv4, /48 of IPv6."""

MAX_SLOWED_OF_NAME = 600
"""Tries of one name from all addresses, the slowed ones included; later ones are not compared."""

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
        self._tries: OrderedDict[tuple[str, str], RecentTimes] = OrderedDict()

    def begin(self, name: str, address: str, known_browser: str = "") -> None:
        """Count a try before the password is compared. Raises TooManyWrongPasswords.

        `known_browser` identifies a browser in which this person has signed in before.
        """
        now = self._clock()
        with self._lock:
            places = _places(name, address, known_browser)
            if name and not known_browser and self._count((name, ""), now) >= MAX_WRONG_OF_NAME:
                places.append((_slowed_place(name, address), MAX_SLOWED_OF_NETWORK))
            if any(self._count(place, now) >= most for place, most in places):
                raise TooManyWrongPasswords
            for place, _ in places:
                self._tries.setdefault(place, RecentTimes()).append(now)
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
            if not known_browser:
                self._tries.pop(_slowed_place(name, address), None)

    def _count(self, place: tuple[str, str], now: float) -> int:
        """Return the number of recent tries from a place. The caller holds the lock."""
        times = self._tries.get(place)
        if times is None:
            return 0
        self._tries.move_to_end(place)
        times.forget_until(now - WRONG_PASSWORD_SECONDS)
        return len(times)


def _places(name: str, address: str, known_browser: str) -> list[tuple[tuple[str, str], int]]:
    if known_browser:
        return [((name, f"browser {known_browser}"), MAX_WRONG_PASSWORDS)]
    network = _network(address)
    places = [((name, network), MAX_WRONG_PASSWORDS), (("", network), MAX_WRONG_OF_ADDRESS)]
    return [*places, ((name, ""), MAX_SLOWED_OF_NAME)] if name else places


def _slowed_place(name: str, address: str) -> tuple[str, str]:
    return name, f"slowed {_network(address, bits=24, bits_of_6=48)}"


def _network(address: str, bits: int = 32, bits_of_6: int = 64) -> str:
    """The network of an address with these numbers of bits; one customer of a provider has a whole /64 of IPv6."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    found = getattr(found, "ipv4_mapped", None) or found
    return str(ipaddress.ip_network(f"{found}/{bits if found.version == 4 else bits_of_6}", strict=False))
