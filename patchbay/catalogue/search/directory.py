"""The directory of one hub: full-text search over every server, tool, resource and prompt.

The index is in memory. It is filled in small steps after the first page view, or at once by the first search. Before
each search only servers with a new version are read again, so that a search costs the same each time. With a model,
entries near the query's meaning are found too; not while the background thread makes the first vectors.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

from patchbay.catalogue.search.meaning_ranks import rank_entries
from patchbay.catalogue.search.tool_search import first_sentence, searchable_texts, text_of_meaning
from patchbay.catalogue.servers.server import Server
from patchbay.descriptors import Descriptor
from patchbay.embeddings.short_texts import ShortTexts
from patchbay.fulltext.index import BEGIN, END, Index, IndexedText

WEIGHTS = {"name": 4.0, "title": 2.0, "description": 2.0, "server": 1.0, "arguments": 1.0}
KINDS = ("server", "tool", "resource", "prompt")

SERVERS_PER_STEP = 4
"""Servers that the background thread reads in one step."""

MAX_OPENING_CHARACTERS = 240
"""Characters of the first sentence of a description that are shown."""

START_DELAY_SECONDS = 0.5
"""Seconds before the background thread begins, so that a start or a page comes first."""

PAUSE_FACTOR = 1.0
"""Pause after a step of the background thread, as a multiple of the step's time."""


@dataclass(frozen=True, slots=True)
class DirectoryEntry:
    """One search result. `place` is its number among its kind on the server's page; `title` may be empty.

    `snippet` is a part of the description in which BEGIN and END of the index enclose each match. `why` is `words`,
    `meaning` or `both`; empty for a search without a model.
    """

    kind: str
    server: str
    name: str
    title: str
    place: int = 0
    snippet: str = ""
    why: str = ""


class Directory:
    """A search index of servers. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._index: Index | None = None
        self._meaning = ShortTexts()
        self._known: dict[str, tuple[Server, list[str]]] = {}
        self._entries: dict[str, DirectoryEntry] = {}
        self._openings: dict[str, str] = {}
        """The first sentence of each description, for an entry whose words are not those of the query."""
        self._prepared = self._is_filling = False
        self._ending = threading.Event()

    def prepare(self, servers: Iterable[Server]) -> None:
        """Fill the index in the background, once: thousands of tools take seconds, and a search may follow soon."""
        if self._prepared:
            return
        self._prepared = self._is_filling = True
        # Not a daemon thread: the interpreter waits for its current step, and closes the index after that.
        threading.Thread(target=self._fill, args=(list(servers),), name="directory", daemon=False).start()

    def end(self) -> None:
        """Stop the background thread, because the hub is ending."""
        self._ending.set()

    def _fill(self, servers: list[Server]) -> None:
        """Read the servers that no search has read yet, in the background; stop when the program ends."""
        try:
            self._read_in_steps(servers)
        finally:
            self._is_filling = False

    def _read_in_steps(self, servers: list[Server]) -> None:
        pause = START_DELAY_SECONDS
        for begin in range(0, len(servers), SERVERS_PER_STEP):
            self._ending.wait(pause)
            if self._ending.is_set() or not threading.main_thread().is_alive():
                return
            begun = time.monotonic()
            with self._lock:
                self._read(
                    {
                        each.name: each
                        for each in servers[begin : begin + SERVERS_PER_STEP]
                        if each.name not in self._known
                    }
                )
                self._meaning.prepare()
            pause = (time.monotonic() - begun) * PAUSE_FACTOR

    def find(
        self,
        servers: Iterable[Server],
        query: str,
        kind: str = "",
        limit: int = 50,
        may_see: Callable[[DirectoryEntry], bool] = lambda entry: True,
    ) -> list[DirectoryEntry]:
        """Return at most `limit` matches of a query, best first; an empty query matches nothing.

        `kind` is one of KINDS, or empty for all. Only entries that `may_see` are near a meaning; the caller filters
        those that are found by words. Raises ValueError for another kind.
        """
        if kind and kind not in KINDS:
            raise ValueError(f"expected one of {', '.join(KINDS)}; not {kind!r:.60}")
        if not query.strip():
            return []
        with self._lock:
            index = self._index_of({each.name: each for each in servers})
            where = {"kind": kind} if kind else None
            hits = index.search(query, limit, where=where, snippets=("description",))
            snippets = {hit.key: hit.snippets["description"] for hit in hits}
            if self._is_filling or not self._meaning.is_possible:
                return [replace(self._entries[key], snippet=snippet) for key, snippet in snippets.items()]
            allowed = partial(self._may_find, kind, may_see)
            ranked = rank_entries(index, self._meaning, query, limit, where, allowed)
            return [
                replace(self._entries[key], snippet=snippets.get(key, self._openings[key]), why=why)
                for key, why in ranked.items()
            ]

    def _may_find(self, kind: str, may_see: Callable[[DirectoryEntry], bool], key: str) -> bool:
        entry = self._entries[key]
        return kind in ("", entry.kind) and may_see(entry)

    def _index_of(self, servers: Mapping[str, Server]) -> Index:
        """Return the index of exactly these servers. The caller holds the lock."""
        gone = [name for name, (known, _) in self._known.items() if servers.get(name) is not known]
        for name in gone:
            _, keys = self._known.pop(name)
            self._open_index().remove(*keys)
            self._meaning.remove(keys)
            for key in keys:
                del self._entries[key], self._openings[key]
        self._read({name: server for name, server in servers.items() if name not in self._known})
        return self._open_index()

    def _open_index(self) -> Index:
        if self._index is None:
            self._index = Index(WEIGHTS, labels=("kind",))
        return self._index

    def _read(self, servers: Mapping[str, Server]) -> None:
        """Add servers that are not in the index. The caller holds the lock."""
        documents: list[IndexedText] = []
        for name, server in servers.items():
            made = list(_documents(server))
            documents += [document for document, _ in made]
            self._entries |= {document.key: entry for document, entry in made}
            self._openings |= {
                document.key: first_sentence(document.texts.get("description", ""))[:MAX_OPENING_CHARACTERS]
                for document, _ in made
            }
            self._meaning.put({document.key: text_of_meaning(document.texts) for document, _ in made})
            self._known[name] = server, [document.key for document, _ in made]
        if documents:
            self._open_index().put(*documents)


def _documents(server: Server) -> Iterator[tuple[IndexedText, DirectoryEntry]]:
    yield _document(
        DirectoryEntry("server", server.name, server.name, server.title or ""),
        {"description": "\n".join(filter(None, (server.description, server.instructions)))},
    )
    for place, tool in enumerate(server.tools.values(), 1):
        texts = searchable_texts(tool.wire)
        yield _document(DirectoryEntry("tool", server.name, tool.name, texts["title"], place), texts)
    readable: list[Descriptor] = [*server.resources.values(), *server.templates.values()]
    for place, one in enumerate(readable, 1):
        address = str(one.wire.get("uri") or one.wire.get("uriTemplate"))
        title = str(one.wire.get("title") or one.wire.get("name") or "")
        yield _document(DirectoryEntry("resource", server.name, address, title, place), _description(one))
    for place, prompt in enumerate(server.prompts.values(), 1):
        title = str(prompt.wire.get("title") or "")
        yield _document(DirectoryEntry("prompt", server.name, prompt.name, title, place), _description(prompt))


def entry_names(server: Server) -> dict[str, list[str]]:
    """Return the names under which the entries of a server are found, by kind, in the order of its page."""
    readable: list[Descriptor] = [*server.resources.values(), *server.templates.values()]
    return {
        "server": [server.name],
        "tool": [tool.name for tool in server.tools.values()],
        "resource": [str(one.wire.get("uri") or one.wire.get("uriTemplate")) for one in readable],
        "prompt": [prompt.name for prompt in server.prompts.values()],
    }


def _description(descriptor: Descriptor) -> dict[str, str]:
    return {"description": str(descriptor.wire.get("description") or "")}


def _document(entry: DirectoryEntry, texts: Mapping[str, str]) -> tuple[IndexedText, DirectoryEntry]:
    own = {"name": entry.name, "title": entry.title, "server": entry.server}
    key = f"{entry.kind}\n{entry.server}\n{entry.place}"
    return IndexedText(key, {**texts, **own}, {"kind": entry.kind}), entry


def without_marks(text: str) -> str:
    """Return a snippet without its match marks."""
    return text.replace(BEGIN, "").replace(END, "")
