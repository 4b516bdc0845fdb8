"""Templates: text in, HTML out. Jinja environments in which everything is escaped.

Two kinds: the app's own pages (`templates/`), and the content-addressed pages below `/mcp`, which are
looked up by name in the store, compiled once for each CID, run in a sandbox, and may extend the app's base page.
Rules: data is never used as a template; a template sees plain values only, never the store or a server; a template is
compiled once in a process, whichever hub shows it, because neither a file of the app nor a CID changes.
Sources: DESIGN sections 2, 4 and 11; REQUIREMENTS VWR-5, VWR-6, VWR-35; THREATS 1.4.
"""

from __future__ import annotations

import time
from contextlib import suppress
from functools import cache, lru_cache
from typing import Any

import orjson
from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template, TemplateError, TemplateSyntaxError
from jinja2.sandbox import ImmutableSandboxedEnvironment
from markupsafe import Markup, escape

from patchbay.assets import REFERENCE_TEMPLATES, TEMPLATES
from patchbay.catalogue.contents.links import format_time
from patchbay.errors import ConfigError, PatchbayError
from patchbay.fulltext.index import BEGIN, END
from patchbay.store import Store
from patchbay.topics import PAGE_TEMPLATES
from patchbay.views.hidden_characters import escape_hidden_characters, show_hidden_characters

SHIPPED = REFERENCE_TEMPLATES / "servers" / "templates"
"""Where the content-addressed templates come from, and what is used where the store has none."""

MOST_INDENTED = 100_000
"""Bytes of the longest JSON that is indented: what nests deeply becomes hundreds of times as long by that."""

FRAME = ("base.html", "macros.html")
"""What content-addressed templates take from the app's own."""


class Pages:
    """Renders pages of one hub."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def page(self, name: str, /, **values: Any) -> str:
        """The HTML of one of the app's own pages (`servers.html`)."""
        return _own().get_template(name).render(values)

    def prepare(self) -> None:
        """Compile every template, so that nobody who looks at a page waits for that."""
        for name in _own().list_templates():
            _own().get_template(name)
        for path in sorted(SHIPPED.rglob("*.html")):
            name = path.relative_to(SHIPPED).as_posix()
            with suppress(PatchbayError, TemplateError, UnicodeDecodeError):  # whoever opens that page is told
                self._content(name, self._store.names.get(f"{PAGE_TEMPLATES}{name}"))
        for name in FRAME:
            _contained().get_template(name)

    def content_page(self, name: str, /, **values: Any) -> str:
        """The HTML of a content-addressed page (`mcp/meta.html`): the store's version, else the shipped one.

        Raises ConfigError naming the template, its CID and the line when it cannot be used.
        """
        cid = self._store.names.get(f"{PAGE_TEMPLATES}{name}")
        where = f"template {name} ({cid or 'as shipped'})"
        try:
            return self._content(name, cid).render(values)
        except TemplateSyntaxError as problem:
            raise ConfigError(where, f"line {problem.lineno}", problem.message or "is no template") from problem
        except (TemplateError, UnicodeDecodeError) as problem:
            raise ConfigError(where, "", str(problem)) from problem

    def _content(self, name: str, cid: str | None) -> Template:
        return _compiled(self._store.blobs.get(cid) if cid else (SHIPPED / name).read_bytes())


@lru_cache(maxsize=32)
def _compiled(text: bytes) -> Template:
    return _contained().from_string(text.decode("utf-8"))


@cache
def _own() -> Environment:
    """For the app's own pages, which nobody can change from outside: attributes are simply read, which is twice as
    quick."""
    return _with_filters(Environment(**_options()))


@cache
def _contained() -> Environment:
    """For content-addressed pages, which an operator may write: they reach nothing but the values they are given."""
    return _with_filters(ImmutableSandboxedEnvironment(**_options()))


def _options() -> dict[str, Any]:
    return {
        "loader": FileSystemLoader(TEMPLATES),
        "autoescape": True,
        "undefined": StrictUndefined,
        "trim_blocks": True,
        "lstrip_blocks": True,
        "auto_reload": False,
    }


def _with_filters(env: Environment) -> Environment:
    """With the filters that templates use."""
    env.filters["pretty"] = pretty
    env.filters["when"] = format_time
    env.filters["ago"] = ago
    env.filters["marked"] = marked
    env.filters["short"] = short
    env.filters["sentence"] = sentence
    return env


def pretty(value: Any) -> str:
    """A JSON value as text for people, indented unless it is too long for that; hidden characters are JSON escapes."""
    flat = orjson.dumps(value, default=_plain, option=orjson.OPT_NON_STR_KEYS)
    if len(flat) <= MOST_INDENTED:
        flat = orjson.dumps(value, default=_plain, option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS)
    return escape_hidden_characters(flat.decode())


def _plain(value: Any) -> Any:
    return dict(value) if hasattr(value, "keys") else str(value)


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
    return Markup(show_hidden_characters(str(escape(text)).replace(BEGIN, "<mark>").replace(END, "</mark>")))


def sentence(text: str) -> str:
    """A message as a sentence: it begins with a capital letter and ends with a full stop."""
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")


def short(cid: str) -> str:
    """A CID short enough to read: its first and last characters."""
    return cid if len(cid) <= 20 else f"{cid[:10]}…{cid[-6:]}"
