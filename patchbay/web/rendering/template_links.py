"""Puts the path prefix of the hub before the links in a template, when the template is compiled.

A template writes a link as a path of the hub: `href="/servers"`, or `href="{{ server.page }}"` with a value. So the
templates that operators store work below each prefix, and no page can leave a link out. A path in a text has the
filter `below_prefix`. Without a prefix a template is compiled as it is written.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Any

from jinja2 import Environment
from jinja2.ext import Extension
from markupsafe import Markup, escape

from patchbay.hosts.path_prefix import add_prefix

ATTRIBUTES = ("href", "src", "action", "formaction", "data-live", "data-passkey", "data-endpoint")
"""The attributes of the hub's pages whose values are addresses."""

_LINK = re.compile(
    rf"""(?P<begin>(?<![\w-])(?:{"|".join(ATTRIBUTES)})=["'])(?:(?P<path>/)(?!/)|\{{\{{(?P<value>.+?)\}}\}})"""
)


def add_path_prefix(environment: Environment, prefix: str) -> Environment:
    """Make the templates of an environment write links with this prefix, which may be empty; return the environment."""
    environment.filters["below_prefix"] = partial(_write_path, prefix)
    if prefix:
        environment.add_extension(_make_extension(prefix))
    return environment


def _write_path(prefix: str, value: Any) -> Markup:
    return Markup(add_prefix(prefix, str(escape(value))))


def _make_extension(prefix: str) -> type[Extension]:
    def write_link(found: re.Match[str]) -> str:
        if found["path"]:
            return f"{found['begin']}{prefix}/"
        return f"{found['begin']}{{{{ ({found['value']}) | below_prefix }}}}"

    class LinksBelowPrefix(Extension):
        """Changes the links in the source of each template."""

        def preprocess(self, source: str, name: str | None, filename: str | None = None) -> str:
            """Return the source with the prefix before each link."""
            return _LINK.sub(write_link, source)

    return LinksBelowPrefix
