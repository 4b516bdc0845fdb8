"""Follows every link of the pages of a hub below a path prefix, as the operator, and says which of them are wrong."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from html.parser import HTMLParser
from urllib.parse import urldefrag, urljoin, urlsplit

import httpx2

from patchbay.web.rendering.template_links import ATTRIBUTES

STREAMS = ("/activity/events", "/changes")
"""Ends of the paths of streams, which have no end."""


class _Links(HTMLParser):
    """The addresses in a page: (tag, attribute, value)."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [(tag, name, value) for name, value in attrs if name in ATTRIBUTES and value is not None]


@dataclass
class Crawl:
    """What was found: paths of pages, of forms, and faults, each with the page that has the link."""

    pages: set[str] = field(default_factory=set)
    forms: set[str] = field(default_factory=set)
    faults: list[str] = field(default_factory=list)


def crawl(client: httpx2.Client, base: str, starts: tuple[str, ...], most: int) -> Crawl:
    """Follow the links of at most `most` pages from `starts`, paths below `base`, the URL of the hub.

    A link or a form that leads elsewhere on the host, and a link or redirect without a page, is a fault.
    """
    origin, found = "/".join(base.split("/", 3)[:3]), Crawl()
    waiting = deque((base + path, "the test") for path in starts)
    while waiting and len(found.pages) < most:
        url, source = waiting.popleft()
        path = urlsplit(url).path
        if url in found.pages or path.endswith(STREAMS):
            continue
        found.pages.add(url)
        answer = client.get(url)
        links = [("", "location", answer.headers["location"])] if answer.is_redirect else []
        if answer.status_code >= 400:
            found.faults.append(f"{answer.status_code}: {url} from {source}")
        elif answer.headers.get("content-type", "").startswith("text/html"):
            reader = _Links()
            reader.feed(answer.text)
            links += reader.found
        for tag, name, value in links:
            wanted = urldefrag(urljoin(url, value))[0]
            if urlsplit(wanted).scheme not in ("http", "https") or not wanted.startswith(f"{origin}/"):
                continue
            if not wanted.startswith(f"{base}/"):
                found.faults.append(f"outside: {tag} {name}={value} in {url}")
            elif name in ("action", "formaction"):
                found.forms.add(wanted)
            elif name != "data-endpoint":
                waiting.append((wanted, url))
    return found
