"""Templates: text in, HTML out. One sandboxed Jinja environment in which everything is escaped.

Two kinds: the app's own pages (`templates/`), and the content-addressed pages below `/mcp`, which are
looked up by name in the store, compiled once for each CID, and may extend the app's base page.
Rules: data is never used as a template; a template sees plain values only, never the store or a server.
Sources: DESIGN sections 2, 4 and 11; REQUIREMENTS VWR-5, VWR-6, VWR-35; THREATS 1.4.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import orjson
from jinja2 import FileSystemLoader, StrictUndefined, Template, TemplateError, TemplateSyntaxError
from jinja2.sandbox import ImmutableSandboxedEnvironment
from markupsafe import Markup, escape

from patchbay.errors import ConfigError
from patchbay.fulltext import BEGIN, END
from patchbay.settings import ROOT
from patchbay.store import Store

SHIPPED = ROOT / "reference_templates" / "servers" / "templates"
"""Where the content-addressed templates come from, and what is used where the store has none."""


class Pages:
    """Renders pages of one hub."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._env = _environment()
        self._by_cid = lru_cache(maxsize=32)(self._compiled)

    def page(self, name: str, /, **values: Any) -> str:
        """The HTML of one of the app's own pages (`servers.html`)."""
        return self._env.get_template(name).render(values)

    def content_page(self, name: str, /, **values: Any) -> str:
        """The HTML of a content-addressed page (`mcp/meta.html`): the store's version, else the shipped one.

        Raises ConfigError naming the template, its CID and the line when it cannot be used.
        """
        cid = self._store.names.get(f"templates/{name}")
        where = f"template {name} ({cid or 'as shipped'})"
        try:
            template = self._by_cid(cid) if cid else self._shipped(name)
            return template.render(values)
        except TemplateSyntaxError as problem:
            raise ConfigError(where, f"line {problem.lineno}", problem.message or "is no template") from problem
        except (TemplateError, UnicodeDecodeError) as problem:
            raise ConfigError(where, "", str(problem)) from problem

    def _compiled(self, cid: str) -> Template:
        return self._env.from_string(self._store.blobs.get(cid).decode("utf-8"))

    def _shipped(self, name: str) -> Template:
        return self._env.from_string((SHIPPED / name).read_text("utf-8"))


def _environment() -> ImmutableSandboxedEnvironment:
    env = ImmutableSandboxedEnvironment(
        loader=FileSystemLoader(ROOT / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    env.filters["pretty"] = pretty
    env.filters["when"] = when
    env.filters["ago"] = ago
    env.filters["marked"] = marked
    env.filters["short"] = short
    env.filters["sentence"] = sentence
    return env


def pretty(value: Any) -> str:
    """A JSON value as indented text for people."""
    return orjson.dumps(value, default=_plain, option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS).decode()


def _plain(value: Any) -> Any:
    return dict(value) if hasattr(value, "keys") else str(value)


def when(at: float) -> str:
    """Unix time in seconds as `2026-01-31 12:00:00 UTC`."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def ago(at: float, now: float | None = None) -> str:
    """How long ago a Unix time was, in words: `just now`, `3 min ago`, `2 h ago`, `5 days ago`."""
    seconds = max(0.0, (time.time() if now is None else now) - at)
    for size, unit in ((86400, "day"), (3600, "h"), (60, "min")):
        if seconds >= size:
            many = int(seconds // size)
            return f"{many} {unit}{'s' if unit == 'day' and many > 1 else ''} ago"
    return "just now"


def marked(text: str) -> Markup:
    """Text from an index with `<mark>` around what matched; everything else is escaped."""
    return Markup(str(escape(text)).replace(BEGIN, "<mark>").replace(END, "</mark>"))


def sentence(text: str) -> str:
    """A message as a sentence: it begins with a capital letter and ends with a full stop."""
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")


def short(cid: str) -> str:
    """A CID short enough to read: its first and last characters."""
    return cid if len(cid) <= 20 else f"{cid[:10]}…{cid[-6:]}"
