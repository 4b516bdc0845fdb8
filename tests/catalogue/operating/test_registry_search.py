"""A search of a registry by several words: each is asked for, and what comes back is ranked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from patchbay.catalogue.operating.registry_search import search_registry
from patchbay.client.registry.lookup import Registries
from patchbay.embeddings import selection
from patchbay.embeddings.selection import ModelSelection
from tests.cli.registries import package, registries, server
from tests.embeddings.small_models import make_model

PACKAGES = {"packages": [package("npm", "@a/b", "1.0.0")]}
SERVERS = (
    server("com.a/calendar", "Meetings", "1.0.0", **PACKAGES),
    server("com.b/calendar-reader", "Reads events of a calendar", "1.0.0", **PACKAGES),
    server("com.c/spreader", "Paint", "1.0.0", **PACKAGES),
    server("com.d/photo-tool", "The scale of an image", "1.0.0", **PACKAGES),
    server("com.e/tool-of-photographers", "Invoices", "1.0.0", **PACKAGES),
)


@pytest.fixture(scope="module")
def found() -> Iterator[Registries]:
    with registries(*SERVERS) as url:
        yield Registries(url, url, url)


@pytest.fixture(autouse=True)
def no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """By words alone, whatever model another test has chosen in this process."""
    monkeypatch.setattr(selection, "_selection", ModelSelection(selection.OFF))


def search(registries: Registries, question: str) -> list[str]:
    return [one.name for one in search_registry(registries, question)]


def test_servers_with_more_of_the_words_come_first(found: Registries) -> None:
    names = search(found, "read a calendar")
    assert names[0] == "com.b/calendar-reader" and {*names[1:]} == {"com.a/calendar", "com.c/spreader"}


def test_one_word_keeps_the_order_of_the_registry_and_common_words_are_not_asked_for(found: Registries) -> None:
    assert (
        search(found, "calendar")
        == search(found, "what is the calendar")
        == ["com.a/calendar", "com.b/calendar-reader"]
    )
    assert search(found, "com.a/calendar") == ["com.a/calendar"]


def test_meaning_places_a_server_whose_description_has_none_of_the_words(
    found: Registries, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert search(found, "size of photographers")[0] == "com.e/tool-of-photographers"
    monkeypatch.setattr(selection, "_selection", ModelSelection(str(make_model(tmp_path))))
    assert search(found, "size photo tool")[0] == "com.d/photo-tool"
