"""The directory of one hub: every server, tool, resource and prompt, found by its words.

The index is made when somebody looks for the first time, in memory. Before each search only the servers whose
version changed are read again, so that a search costs the same whatever came before it.
Sources: patchbay/fulltext.py; REQUIREMENTS VWR-5.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from patchbay.catalogue.search import texts_of
from patchbay.catalogue.servers import Server
from patchbay.descriptors import Descriptor
from patchbay.fulltext import BEGIN, END, Document, Index

WEIGHTS = {"name": 4.0, "title": 2.0, "description": 2.0, "server": 1.0, "arguments": 1.0}
KINDS = ("server", "tool", "resource", "prompt")


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that can be found. `place` is its number among its kind on the server's page; `title` may be empty.

    `snippet` is a part of the description in which BEGIN and END of the index stand around what matched.
    """

    kind: str
    server: str
    name: str
    title: str
    place: int = 0
    snippet: str = ""


class Directory:
    """Everything that some servers offer. Safe for many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._index: Index | None = None
        self._known: dict[str, tuple[Server, list[str]]] = {}
        self._entries: dict[str, Entry] = {}
        self._prepared = False

    def prepare(self, servers: Iterable[Server]) -> None:
        """Make the index in the background, once: thousands of tools take seconds, and somebody may search soon."""
        if self._prepared:
            return
        self._prepared = True
        known = list(servers)
        threading.Thread(target=self.find, args=(known, ""), name="directory", daemon=True).start()

    def find(self, servers: Iterable[Server], query: str, kind: str = "", limit: int = 50) -> list[Entry]:
        """At most `limit` things that have a word of a query, best first; a query without words finds nothing.

        `kind` is one of KINDS, or empty for all. Raises ValueError for another kind.
        """
        if kind and kind not in KINDS:
            raise ValueError(f"expected one of {', '.join(KINDS)}; not {kind!r:.60}")
        with self._lock:
            if self._index is None:
                self._index = Index(WEIGHTS, labels=("kind",))
            self._read(self._index, {each.name: each for each in servers})
            where = {"kind": kind} if kind else None
            hits = self._index.search(query, limit, where=where, snippets=("description",))
            found = [(self._entries[hit.key], hit.snippets["description"]) for hit in hits]
        return [
            Entry(entry.kind, entry.server, entry.name, entry.title, entry.place, snippet) for entry, snippet in found
        ]

    def _read(self, index: Index, servers: Mapping[str, Server]) -> None:
        for name in [name for name, (known, _) in self._known.items() if servers.get(name) is not known]:
            _, keys = self._known.pop(name)
            index.remove(*keys)
            for key in keys:
                del self._entries[key]
        documents: list[Document] = []
        for name, server in servers.items():
            if name in self._known:
                continue
            made = list(_documents(server))
            documents += [document for document, _ in made]
            self._entries |= {document.key: entry for document, entry in made}
            self._known[name] = server, [document.key for document, _ in made]
        if documents:
            index.put(*documents)


def _documents(server: Server) -> Iterator[tuple[Document, Entry]]:
    yield _document(
        Entry("server", server.name, server.name, server.title or ""),
        {"description": "\n".join(filter(None, (server.description, server.instructions)))},
    )
    for place, tool in enumerate(server.tools.values(), 1):
        texts = texts_of(tool.wire)
        yield _document(Entry("tool", server.name, tool.name, texts["title"], place), texts)
    readable: list[Descriptor] = [*server.resources.values(), *server.templates.values()]
    for place, one in enumerate(readable, 1):
        address = str(one.wire.get("uri") or one.wire.get("uriTemplate"))
        title = str(one.wire.get("title") or one.wire.get("name") or "")
        yield _document(Entry("resource", server.name, address, title, place), _described(one))
    for place, prompt in enumerate(server.prompts.values(), 1):
        title = str(prompt.wire.get("title") or "")
        yield _document(Entry("prompt", server.name, prompt.name, title, place), _described(prompt))


def _described(descriptor: Descriptor) -> dict[str, str]:
    return {"description": str(descriptor.wire.get("description") or "")}


def _document(entry: Entry, texts: Mapping[str, str]) -> tuple[Document, Entry]:
    own = {"name": entry.name, "title": entry.title, "server": entry.server}
    key = f"{entry.kind}\n{entry.server}\n{entry.place}"
    return Document(key, {**texts, **own}, {"kind": entry.kind}), entry


def plain(text: str) -> str:
    """A snippet without its marks."""
    return text.replace(BEGIN, "").replace(END, "")
