"""What a list of tools costs a model: the bytes of its descriptors as clients get them, and an estimate of tokens."""

from __future__ import annotations

from collections.abc import Iterable

import orjson

from patchbay.catalogue.servers.server import Server, ServerCache
from patchbay.descriptors import Descriptor

BYTES_PER_TOKEN = 4
"""Bytes of English text and JSON that a token of the usual vocabularies stands for, on average."""

_PRICES: ServerCache[str, dict[str, int]] = ServerCache()


def tool_prices(server: Server) -> dict[str, int]:
    """Return the bytes of each tool that a list of the server shows, by name."""
    return _PRICES.get(server, "tools", lambda: {name: count_bytes(one) for name, one in _shown(server).items()})


def count_bytes(tool: Descriptor) -> int:
    """Return the bytes of a descriptor in a list."""
    return len(orjson.dumps(tool.wire))


def estimate_tokens(size: int) -> int:
    """Return the tokens that so many bytes of a list are, rounded up."""
    return -(-size // BYTES_PER_TOKEN)


def describe_price(sizes: Iterable[int]) -> str:
    """Return the price of tools of these bytes in words, such as `3 tools, 1,204 bytes, about 301 tokens`."""
    known = list(sizes)
    total = sum(known)
    tools = "1 tool" if len(known) == 1 else f"{len(known)} tools"
    return f"{tools}, {total:,} bytes, about {estimate_tokens(total):,} tokens"


def _shown(server: Server) -> dict[str, Descriptor]:
    return {name: one for name, one in server.listed("tools").items() if one.is_for_models}
