"""Searches a registry for several words: the servers whose names contain one of them, best first.

A registry finds one text in the names of its servers. A question is asked word by word, and what comes back is ranked
here: by the words of names, titles and descriptions, and by their meaning with the extra `semantic`.
"""

from __future__ import annotations

from collections.abc import Mapping

from patchbay.catalogue.search.meaning_ranks import rank_entries
from patchbay.catalogue.search.tool_search import text_of_meaning
from patchbay.client.registry.lookup import Registries
from patchbay.client.registry.offers import RegisteredServer
from patchbay.embeddings.short_texts import ShortTexts
from patchbay.fulltext.index import Index, IndexedText
from patchbay.fulltext.words import significant_words

MAX_WORDS = 5
"""Words of a question that the registry is asked for; each is one request or more."""

WEIGHTS = {"name": 2.0, "title": 2.0, "description": 1.0}


def search_registry(registries: Registries, question: str) -> list[RegisteredServer]:
    """Return the servers whose names contain a word of a question; for several words the best first.

    Common words such as `a` and `the` do not count beside others. Raises Unreachable, ServerTimeout.
    """
    words = [term.text for term in significant_words(question)][:MAX_WORDS]
    if len(words) < 2:
        return registries.search("".join(words) or question.strip())
    found = {server.name: server for word in words for server in registries.search(word)}
    return _ranked(found, question)


def _ranked(found: Mapping[str, RegisteredServer], question: str) -> list[RegisteredServer]:
    """Return servers by name, best first; those that the ranking does not know come last."""
    texts = {
        name: {"name": server.short_name, "title": server.title, "description": server.description}
        for name, server in found.items()
    }
    meaning = ShortTexts()
    meaning.put({name: text_of_meaning(each) for name, each in texts.items()})
    with Index(WEIGHTS) as index:
        index.put(*(IndexedText(name, each) for name, each in texts.items()))
        best = rank_entries(index, meaning, question, len(found))
    return [found[name] for name in dict.fromkeys((*best, *found))]
