"""Jinja templates, with autoescape on.

There are two kinds: the app's own pages (`templates/`), and content-addressed pages below `/mcp`, which come from the
store by name, run in a sandbox, and may extend the base page of the app. Data never becomes a template. A template gets
plain values only, never the store or a server. Each template is compiled once per process, because files and CIDs do
not change; the compiled ones of the app's own pages are kept in files.
"""

from __future__ import annotations

import json
import time
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache, lru_cache
from typing import Any

import orjson
from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template, TemplateError, TemplateSyntaxError
from jinja2.sandbox import ImmutableSandboxedEnvironment
from markupsafe import Markup, escape

from patchbay.assets import REFERENCE_TEMPLATES, TEMPLATES
from patchbay.catalogue.contents.links import format_time
from patchbay.catalogue.servers.rows import BOOT
from patchbay.errors import ConfigError, PatchbayError
from patchbay.fulltext.index import BEGIN, END
from patchbay.store import Store
from patchbay.topics import PAGE_TEMPLATES
from patchbay.views.hidden_characters import escape_hidden_characters, show_hidden_characters
from patchbay.web.rendering.compiled_templates import keep_compiled
from patchbay.web.rendering.icons import choose_tint, first_letter
from patchbay.web.rendering.names import describe_reason, name_author, name_caller, name_entry
from patchbay.web.rendering.template_links import add_path_prefix

SHIPPED = REFERENCE_TEMPLATES / "servers" / "templates"
"""The shipped content-addressed templates; the hub uses them when the store has no template of a name."""

MAX_INDENTED_BYTES = 100_000
"""Bytes of JSON to indent, at most; indenting can make deeply nested JSON hundreds of times longer."""

FRAME = ("base.html", "macros.html")
"""Templates of the app that content-addressed templates may extend or import."""


class Pages:
    """Renders pages of one hub; `prefix` is its path prefix, which each link gets."""

    def __init__(self, store: Store, prefix: str = "") -> None:
        self._store = store
        self._prefix = prefix

    def page(self, name: str, /, **values: Any) -> str:
        """Render one of the app's own pages, such as `servers.html`."""
        return page_environment(self._prefix).get_template(name).render(values)

    def prepare(self) -> None:
        """Compile all templates, so that the first page is fast."""
        for name in page_environment(self._prefix).list_templates():
            page_environment(self._prefix).get_template(name)
        for path in sorted(SHIPPED.rglob("*.html")):
            name = path.relative_to(SHIPPED).as_posix()
            with suppress(PatchbayError, TemplateError, UnicodeDecodeError):  # the page itself reports the error
                self._content(name, self._store.names.get(f"{PAGE_TEMPLATES}{name}"))
        for name in FRAME:
            _sandbox_environment(self._prefix).get_template(name)

    def content_page(self, name: str, /, **values: Any) -> str:
        """Render a content-addressed page, such as `mcp/meta.html`, from the store or from the shipped template.

        Raises ConfigError with the template, its CID and the line when the template is invalid.
        """
        cid = self._store.names.get(f"{PAGE_TEMPLATES}{name}")
        where = f"template {name} ({cid or 'as shipped'})"
        try:
            return self._content(name, cid).render(values)
        except TemplateSyntaxError as problem:
            raise ConfigError(where, f"line {problem.lineno}", problem.message or "invalid template") from problem
        except (TemplateError, UnicodeDecodeError) as problem:
            raise ConfigError(where, "", str(problem)) from problem

    def _content(self, name: str, cid: str | None) -> Template:
        text = self._store.blobs.get(cid) if cid else (SHIPPED / name).read_bytes()
        return _compile_template(text, self._prefix)


@lru_cache(maxsize=32)
def _compile_template(text: bytes, prefix: str) -> Template:
    return _sandbox_environment(prefix).from_string(text.decode("utf-8"))


@cache
def page_environment(prefix: str) -> Environment:
    """The environment of the app's own pages. It has no sandbox, which makes it twice as fast."""
    return _prepare(Environment(**_environment_options()), prefix)


@cache
def _sandbox_environment(prefix: str) -> Environment:
    """The environment of content-addressed pages: a sandbox that gives access to the values of the page only."""
    return _prepare(ImmutableSandboxedEnvironment(**_environment_options()), prefix)


def _prepare(environment: Environment, prefix: str) -> Environment:
    return keep_compiled(add_path_prefix(_add_filters(environment), prefix), prefix)


def _environment_options() -> dict[str, Any]:
    return {
        "loader": FileSystemLoader(TEMPLATES),
        "autoescape": True,
        "undefined": StrictUndefined,
        "trim_blocks": True,
        "lstrip_blocks": True,
        "auto_reload": False,
    }


def _add_filters(env: Environment) -> Environment:
    """Add the filters that templates use."""
    env.filters["pretty"] = format_json
    env.filters["element"] = escape_in_element
    env.filters["when"] = format_time
    env.filters["clock"] = mark_time
    env.filters["ago"] = format_age
    env.filters["marked"] = mark_matches
    env.filters["short"] = shorten_cid
    env.filters["shown"] = show_hidden_characters
    env.filters["sentence"] = as_sentence
    env.filters["worded"] = describe_origin
    env.filters["caller"] = name_caller
    env.filters["author"] = name_author
    env.filters["reason"] = describe_reason
    env.filters["named"] = name_entry
    env.filters["letter"] = first_letter
    env.filters["tint"] = choose_tint
    return env


def format_json(value: Any) -> str:
    """Format a JSON value for people: indented unless it is too long, hidden characters as JSON escapes."""
    try:
        flat = orjson.dumps(value, default=_to_plain, option=orjson.OPT_NON_STR_KEYS).decode()
        if len(flat) <= MAX_INDENTED_BYTES:
            flat = orjson.dumps(value, default=_to_plain, option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS).decode()
    except TypeError as problem:
        if "64-bit" not in str(problem):
            raise
        # orjson does not write integers beyond 64 bits.
        flat = json.dumps(value, default=_to_plain, ensure_ascii=False)
        if len(flat) <= MAX_INDENTED_BYTES:
            flat = json.dumps(value, default=_to_plain, ensure_ascii=False, indent=2)
    return escape_hidden_characters(flat)


def _to_plain(value: Any) -> Any:
    return dict(value) if hasattr(value, "keys") else str(value)


def escape_in_element(text: str) -> Markup:
    """Escape a text for the content of an element. Quotes stay as they are: they end nothing there, and JSON has many.

    An attribute needs the escape of the templates. Source: the HTML standard, normal and escapable raw text elements.
    """
    return Markup(text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;"))


def mark_time(at: float) -> Markup:
    """Format Unix time in seconds as a `time` element in UTC, which a script of the page shows in local time."""
    moment = datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")
    return Markup('<time datetime="{}" data-local>{}</time>').format(moment, format_time(at))


def format_age(at: float, now: float | None = None) -> str:
    """Format the age of a Unix time: `just now`, `3 min ago`, `2 h ago`, `5 days ago`."""
    seconds = max(0.0, (time.time() if now is None else now) - at)
    for size, unit in ((86400, "day"), (3600, "h"), (60, "min")):
        if seconds >= size:
            many = int(seconds // size)
            return f"{many} {unit}{'s' if unit == 'day' and many > 1 else ''} ago"
    return "just now"


def mark_matches(text: str) -> Markup:
    """Put `<mark>` around the matches in a text of the search index; escape everything else."""
    return Markup(show_hidden_characters(str(escape(text)).replace(BEGIN, "<mark>").replace(END, "</mark>")))


def as_sentence(text: str) -> str:
    """Format a message as a sentence: with a capital letter at the start and a full stop at the end.

    A URL at the start stays as it is.
    """
    start = text[:1] if "://" in text.partition(" ")[0] else text[:1].upper()
    return start + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")


def describe_origin(name: str) -> str:
    """Return the kind or the origin of a server as people call it; a name without other words stays as it is."""
    return _WORDS.get(name, name)


_WORDS = {"upstream": "mounted", BOOT: "built in", "variables/mcps": "variable mcps"}


def shorten_cid(cid: str) -> str:
    """Shorten a CID to its first and last characters."""
    return cid if len(cid) <= 20 else f"{cid[:10]}…{cid[-6:]}"
