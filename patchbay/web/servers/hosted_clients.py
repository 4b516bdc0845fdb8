"""What this hub lacks for clients that run on the machines of their makers, such as ChatGPT and claude.ai.

They reach the hub over the internet: by a public name, over https, and with the sign-in of each person (OAuth).
Sources: https://developers.openai.com/apps-sdk/build/auth; https://claude.com/docs/connectors/building/authentication.
"""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import urlsplit

from patchbay.settings import OPEN, PERSONAL, Settings

_PRIVATE_ENDINGS = (".local", ".internal", ".lan", ".home.arpa", ".localhost")
"""The ends of names that no public name server has (RFC 6761, RFC 6762, RFC 8375; and two that are usual)."""


def list_missing(settings: Settings, base: str) -> list[str]:
    """Return a sentence for each thing that the hub lacks; none for a hub that is ready.

    `base` is the URL of the hub as the reader sees it, which counts where the setting `public_url` is empty.
    """
    parts = urlsplit(settings.public_url or base)
    host = parts.hostname or ""
    missing = []
    if parts.scheme != "https":
        missing.append("An https address: put a proxy or a tunnel with TLS in front of the hub, and set --public-url.")
    if not is_public_name(host):
        missing.append(f"A public name: {host} leads to it from this machine or network only.")
    elif host not in {name.partition(":")[0] for name in settings.allowed_hosts}:
        missing.append(f"The name among those that it serves: start it with --allowed-hosts {host}.")
    if settings.mode == PERSONAL:
        missing.append("Sign-in: start it with --access shared, and invite yourself: patchbay invite NAME.")
    elif settings.mode == OPEN:
        missing.append(
            "Sign-in: with --access open everyone who finds its address calls its tools; use --access shared."
        )
    elif settings.issuer:
        missing.append(
            "Sign-in at this hub: with --issuer clients sign in at that issuer, which has to know ChatGPT or claude.ai"
            " and to give tokens for this hub; without --issuer people sign in here."
        )
    return missing


def is_public_name(host: str) -> bool:
    """Whether a host name or an address can lead to the hub from the internet."""
    try:
        return ip_address(host).is_global
    except ValueError:
        return "." in host and not host.endswith(_PRIVATE_ENDINGS)
