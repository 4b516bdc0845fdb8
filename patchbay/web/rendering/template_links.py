"""Puts the path prefix of the hub before the links in a template, when the template is compiled.

A template writes a link as a path of the hub: `href="/servers"`, or `href="{{ server.page }}"` with a value. So the
templates that operators store work below each prefix, and no page can leave a link out. Without a prefix a template is
compiled as it is written.
"""

from __future__ import annotations

import re
from typing import Any

from jinja2 import Environment
from jinja2.ext import Extension
from markupsafe import Markup, escape

from patchbay.hosts.path_prefix import add_prefix

ATTRIBUTES = ("href", "src", "action", "formaction", "data-live", "data-passkey", "data-endpoint")
"""The attributes of the hub's pages whose values are addresses."""

_LINK = re.compile(
    rf"""(?P<begin>(?<![\w-])(?:{"|".join(ATTRIBUTES)})=["'])(?:(?P<path>/)(?!/)|{{{{(?P<value>.+?)}}}})"""
)


def make_link_extension(prefix: str) -> type[Extension]:
    """Return an extension of Jinja that puts `prefix`, which is not empty, before the links in templates."""

    class LinksBelowPrefix(Extension):
        def __init__(self, environment: Environment) -> None:
            super().__init__(environment)
            environment.filters["below_prefix"] = _below_prefix

        def preprocess(self, source: str, name: str | None, filename: str | None = None) -> str:
            return _LINK.sub(_write_link, source)

    def _below_prefix(value: Any) -> str:
        return Markup(add_prefix(prefix, str(escape(value))))

    def _write_link(found: re.Match[str]) -> str:
        if found["path"]:
            return f"{found['begin']}{prefix}/"
        return f"{found['begin']}{{{{ ({found['value']}) | below_prefix }}}}"

    return LinksBelowPrefix
