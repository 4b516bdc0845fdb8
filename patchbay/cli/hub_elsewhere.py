"""A hub that a command reaches by its URL, with a key: `--at` and `--header`, and requests to the pages of the hub."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from string import Template
from typing import Any, TypeVar

import click
import httpx2

from patchbay.cli.typed_addresses import HEADER, Pair
from patchbay.client.addresses.targets import mask_url
from patchbay.client.errors import CredentialsRefused, NotServed, Unreachable
from patchbay.client.network_failures import describe_failure
from patchbay.client.uploads import find_hub_url
from patchbay.errors import ConfigError, ContentError, PatchbayError
from patchbay.settings import whole_environment

GivenHub = tuple[str | None, tuple[Pair, ...]]
"""The values of the options `--at` and `--header`."""

Command = TypeVar("Command", bound=Callable[..., Any])

REQUEST_SECONDS = 60.0
"""Limit on the seconds of one request."""

AT = click.option("--at", metavar="URL", help="Work at the hub with this URL, or with this endpoint (https://HUB/mcp).")
AT_HEADER = click.option(
    "--header",
    "headers",
    type=HEADER,
    multiple=True,
    help="With --at: send this HTTP header; write secrets as ${NAME}. Repeatable.",
)


_FAILURES: dict[int, type[PatchbayError]] = {401: CredentialsRefused, 404: NotServed}
"""The error for a status; ContentError for every other one."""


@dataclass(frozen=True, slots=True)
class HubElsewhere:
    """A hub at a URL, whose path is the path prefix of the hub, and the headers of each request.

    The URL may have a password, so that only `mask_url` of it is shown.
    """

    url: str
    headers: dict[str, str]

    def get(self, path: str) -> Any:
        """Return the JSON at a path.

        Raises Unreachable, and with the hub's sentence CredentialsRefused, NotServed, ContentError.
        """
        return self._send("GET", path)

    def post(self, path: str, fields: dict[str, str]) -> Any:
        """Send a form; return the JSON of the answer. Raises what `get` raises."""
        return self._send("POST", path, fields)

    def _send(self, method: str, path: str, fields: dict[str, str] | None = None) -> Any:
        headers = {**self.headers, "accept": "application/json"}
        url = self.url + path
        shown = mask_url(url)
        try:
            answer = httpx2.request(method, url, data=fields, headers=headers, timeout=REQUEST_SECONDS)
        except (httpx2.HTTPError, httpx2.InvalidURL) as problem:
            raise Unreachable(
                f"{shown} cannot be reached: {describe_failure(problem, has_answered=False)}"
            ) from problem
        try:
            found = answer.json()
        except ValueError as problem:
            raise Unreachable(
                f"{shown} answers with status {answer.status_code} and no JSON: expected the URL of a Patchbay hub"
            ) from problem
        if answer.status_code == 200:
            return found
        error = found.get("error") if isinstance(found, dict) else None
        said = error.get("message") if isinstance(error, dict) else error  # an object where no page answers
        sentence = str(said or f"status {answer.status_code}")
        raise _FAILURES.get(answer.status_code, ContentError)(f"{shown}: {sentence}")


def with_hub_elsewhere(command: Command) -> Command:
    """Add `--at` and `--header` to a command; its parameter `elsewhere` has what `find_hub_elsewhere` takes."""

    @AT
    @AT_HEADER
    @wraps(command)
    def run(*arguments: Any, at: str | None, headers: tuple[Pair, ...], **options: Any) -> Any:
        return command(*arguments, elsewhere=(at, headers), **options)

    return run  # type: ignore[return-value]


def find_hub_elsewhere(given: GivenHub) -> HubElsewhere | None:
    """Return the hub of the options `--at` and `--header`; None without them. Raises ConfigError."""
    url, headers = given
    if url is None:
        if headers:
            raise ConfigError("--header", "", "expected --at with a URL too: headers go to a hub elsewhere")
        return None
    if not url.lower().startswith(("http://", "https://")):
        raise ConfigError(
            "--at", "", f"expected the URL of a hub, such as https://hub.example; got {mask_url(url)!r:.80}"
        )
    try:
        filled = {name: Template(value).substitute(whole_environment()) for name, value in headers}
    except KeyError as problem:
        raise ConfigError("--header", "", f"expected a variable of the environment: {problem}") from problem
    except ValueError as problem:
        raise ConfigError("--header", "", "expected ${NAME} for a variable, and $$ for a dollar sign") from problem
    return HubElsewhere((find_hub_url(url) or url).rstrip("/"), filled)
