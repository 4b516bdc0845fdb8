"""Routes of the hub, which compile the code that builds their URLs when a URL is built.

Werkzeug compiles two functions for each route when it is added: from syntax trees, in half a millisecond. The hub has
two hundred routes and writes its links itself, so that its first page would wait for code that is not used.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from werkzeug.routing import Rule

from patchbay.python_functions.syntax import SYNTAX_LOCK

Builder = Callable[..., tuple[str, str]]
"""Makes the host and the path of a URL from the values of a route's variables."""


class Route(Rule):
    """A rule of Werkzeug whose builders of URLs are compiled at their first use."""

    def _compile_builder(self, append_unknown: bool = True) -> Builder:
        compile_now = super()._compile_builder

        @cache
        def builder() -> Builder:
            with SYNTAX_LOCK:  # a thread of the catalogue may read definitions
                return compile_now(append_unknown)

        def build(route: Rule, /, **values: Any) -> tuple[str, str]:
            return builder()(route, **values)

        return build
