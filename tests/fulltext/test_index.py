"""Full-text search: what finds what, that nothing strangers type is a language, and that an index can be shared."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from patchbay.errors import ConfigError, TimedOut
from patchbay.fulltext.index import BEGIN, END, Index, IndexedText
from patchbay.fulltext.tables import require
from patchbay.fulltext.words import MAX_QUERY_CHARACTERS, MAX_QUERY_WORDS, KnownTexts, pieces, read
from patchbay.sqlite import sqlite3

TEXT = st.text(st.characters(exclude_categories=[]), max_size=200)
WORD = st.text("abcdefghijklmnopqrstuvwxyz", min_size=2, max_size=14)


def index_of(*texts: str, **named: str) -> Index:
    """An index of one column; the keys are 0, 1, 2 ... and those of `named`."""
    index = Index({"text": 1.0})
    documents = {str(number): text for number, text in enumerate(texts)} | named
    index.put(*(IndexedText(key, {"text": text}) for key, text in documents.items()))
    return index


def keys(index: Index, query: str, **more: object) -> list[str]:
    return [hit.key for hit in index.search(query, **more)]  # type: ignore[arg-type]


@pytest.fixture
def library() -> Iterator[Index]:
    index = Index({"title": 4.0, "text": 1.0}, labels=("kind", "language"))
    index.put(
        IndexedText(
            "loops", {"title": "Loops", "text": "How to iterate over lists"}, {"language": "python", "kind": "guide"}
        ),
        IndexedText("lists", {"title": "Lists", "text": "Loops are explained elsewhere"}, {"language": "python"}),
        IndexedText("go", {"title": "Loops in Go", "text": "for"}, {"language": "go", "kind": "guide"}),
    )
    yield index
    index.close()


FINDS = [
    (
        "create_issue",
        ["create issue", "createIssue", "create-issue", "createissue", "create", "issues", "CREATE_ISSUE"],
    ),
    ("createIssue", ["create issue", "create_issue", "createissue", "issue", "creating"]),
    ("getHTTPServer", ["http server", "get", "HTTPServer", "getHttpServer"]),
    ("aws_s3.putObject", ["put object", "s3", "aws s3", "putobject", "aws_s3.putObject"]),
    ("utf-8", ["utf8", "UTF-8", "utf 8"]),
    ("e-mail", ["email", "e-mail"]),
    ("Café crème", ["cafe", "CAFÉ", "creme", "cafe\u0301"]),
    ("running organizations", ["run", "runs", "organization", "organiz", "runni"]),
    ("ties of happiness", ["tie", "happin", "happi", "tied"]),
    ("日本語テスト", ["日本", "本語", "テスト", "日本語テスト"]),
    ("한국어", ["국어"]),
    ("don't panic", ["don't", "panic", "\u201cpanic\u201d", "(panic)", "panic!"]),
    ("a.b.c/d", ["a.b.c", "b.c"]),
]


@pytest.mark.parametrize(("text", "query"), [(text, query) for text, queries in FINDS for query in queries])
def test_words_are_found_however_they_are_written(text: str, query: str) -> None:
    assert keys(index_of(text, "zzz"), query) == ["0"]
    assert keys(index_of(text, "zzz"), query, every=True) == ["0"]


@pytest.mark.parametrize(
    ("text", "query"), [("running", "runni "), ("one two", '"two one"'), ("issues", "sue"), ("a b", "c")]
)
def test_absent_words_are_not_found(text: str, query: str) -> None:
    assert keys(index_of(text, "zzz"), query) == []


def test_a_phrase_in_quotes_is_found_as_a_whole() -> None:
    index = index_of("the quick brown fox", "brown is the quick one")
    assert keys(index, '"quick brown"') == ["0"]
    assert keys(index, '"quick bro') == ["0"]
    assert set(keys(index, "quick brown")) == {"0", "1"}
    assert keys(index, '"one" fox', every=True) == []


def test_every_word_or_any_word() -> None:
    index = index_of("alpha beta", "beta gamma", "delta")
    assert set(keys(index, "alpha gamma")) == {"0", "1"}
    assert keys(index, "beta gamma", every=True) == ["1"]
    assert keys(index, "the beta of gamma ", every=True) == ["1"]


def test_common_words_count_only_where_there_are_no_others() -> None:
    index = index_of("how to do it", "bake bread", "nothing")
    assert keys(index, "how do i bake bread") == ["1"]
    assert keys(index, "how to") == ["0"]


def test_a_match_in_a_heavier_column_comes_first(library: Index) -> None:
    hits = library.search("loops")
    assert [hit.key for hit in hits] == ["go", "loops", "lists"]
    assert hits[0].score > hits[1].score > hits[2].score > 0


def test_labels_filter(library: Index) -> None:
    assert keys(library, "loops", where={"language": "python"}) == ["loops", "lists"]
    assert keys(library, "loops", where={"language": "python", "kind": "guide"}) == ["loops"]
    assert keys(library, "loops", where={"kind": ""}) == ["lists"]
    assert keys(library, "loops", where={"language": "' OR 1=1 --"}) == []


def test_snippets_show_the_matches(library: Index) -> None:
    (hit,) = library.search("iterating", snippets=("text", "title"))
    assert hit.snippets == {"text": f"How to {BEGIN}iterate{END} over lists", "title": "Loops"}
    long = index_of("start " + "filler " * 500 + "needle" + " filler" * 500)
    (found,) = long.search("needle", snippets=("text",))
    assert f"{BEGIN}needle{END}" in found.snippets["text"] and len(found.snippets["text"]) < 300


def test_a_text_cannot_forge_the_marks() -> None:
    index = index_of(f"a {BEGIN}forged{END} b\0c word")
    (hit,) = index.search("word", snippets=("text",))
    assert hit.snippets["text"] == f"a  forged  b c {BEGIN}word{END}"


def test_documents_are_replaced_and_removed(library: Index) -> None:
    library.put(IndexedText("loops", {"title": "Recursion"}))
    assert keys(library, "recursion") == ["loops"] and "loops" not in keys(library, "iterate")
    assert (len(library), library.keys()) == (3, ["go", "lists", "loops"])
    assert library.remove("loops", "loops", "absent") == 1
    assert "loops" not in library and keys(library, "recursion") == []
    library.clear()
    assert len(library) == 0 and keys(library, "loops") == []


def test_names_that_the_index_does_not_have_are_refused_and_nothing_is_kept(library: Index) -> None:
    with pytest.raises(ValueError, match="has no body; it has title, text"):
        library.put(IndexedText("new", {"title": "x"}), IndexedText("newer", {"body": "x"}))
    assert "new" not in library
    with pytest.raises(ValueError, match="has no author; it has kind, language"):
        library.search("loops", where={"author": "x"})
    with pytest.raises(ValueError, match="has no body"):
        library.search("loops", snippets=("body",))


@pytest.mark.parametrize("columns", [{}, {"Title": 1.0}, {"a b": 1.0}, {"x); DROP": 1.0}, {"kind": 1.0}, {"_x": 1.0}])
def test_columns_have_plain_names(columns: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="lower-case names"):
        Index(columns, labels=("kind",))


@settings(max_examples=300, deadline=None)
@given(TEXT)
@example('"')
@example("NEAR(a b, 2) AND OR NOT ^x {a b}: c + d *")
@example("text : x OR title : y")
@example("\x00a\x00 \ud800 \ufeff \u202e")
@example("(" * 1000)
@example("x" * 10_000)
@example("a " * 5_000)
@example('"a" ' * 2_000)
@example("aB" * 3_000)
@example("語" * 3_000)
@example("\u0301 ـً '' \u2028")
def test_anything_can_be_searched_for(query: str) -> None:
    index = index_of("some words", "text near and or not")
    for every in (False, True):
        for hit in index.search(query, every=every, snippets=("text",)):
            assert hit.score > 0 and hit.key in ("0", "1")


@settings(max_examples=200, deadline=None)
@given(TEXT, TEXT)
def test_anything_can_be_put_and_taken_away(key: str, text: str) -> None:
    index = Index({"text": 1.0}, labels=("label",))
    key, label = (one.encode("utf-8", "replace").decode() for one in (key, text[:20]))
    index.put(IndexedText(key, {"text": text}, {"label": label}), IndexedText("other", {"text": "other"}))
    assert key in index
    index.remove(key)
    assert key not in index


@settings(max_examples=200, deadline=None)
@given(st.lists(WORD, min_size=1, max_size=6), st.data())
def test_the_beginning_of_a_word_finds_it(words: list[str], data: st.DataObject) -> None:
    """Also where the stem that is kept is shorter than what was typed."""
    index = index_of(" ".join(words))
    word = data.draw(st.sampled_from(words))
    begun = word[: data.draw(st.integers(2, len(word)))]
    assert keys(index, begun) == ["0"]
    assert keys(index, f"{word} {begun}", every=True) == ["0"]


@settings(max_examples=200, deadline=None)
@given(st.lists(WORD, min_size=2, max_size=4))
def test_the_forms_of_an_identifier_find_each_other(words: list[str]) -> None:
    snake, dashed, apart = "_".join(words), "-".join(words), " ".join(words)
    camel = words[0] + "".join(word.capitalize() for word in words[1:])
    for written in (snake, dashed, camel):
        index = index_of(written)
        for typed in (snake, dashed, camel, apart, "".join(words)):
            assert keys(index, typed) == ["0"], (written, typed)


def test_a_query_is_read_to_a_bound() -> None:
    assert len(read(" ".join(f"w{number}" for number in range(500)))) == MAX_QUERY_WORDS
    assert sum(len(term.text) for term in read("x" * 50_000)) == MAX_QUERY_CHARACTERS
    assert [(term.text, term.phrase, term.open) for term in read('a "b c" b a')] == [
        ("b c", True, False),
        ("b", False, False),
        ("a", False, False),
    ]
    assert [(term.text, term.open) for term in read("al be al")] == [("be", False), ("al", True)]


def test_identifiers_are_taken_apart_and_put_together() -> None:
    assert pieces("getHTTPServer_v2.toJSON") == ["get", "HTTP", "Server", "v2", "to", "JSON"]
    assert pieces("plain") == ["plain"] and pieces("...") == ["..."]
    assert KnownTexts().forms("create_issue or GitHub, plain") == ["createissue", "Git Hub"]


def test_a_limit_is_kept_and_ties_have_an_order() -> None:
    index = index_of(*["same words"] * 20)
    assert keys(index, "same", limit=3) == ["0", "1", "10"]
    assert keys(index, "same", limit=0) == keys(index, "same", limit=-1) == []


def test_many_threads_share_an_index() -> None:
    index = index_of("begin")
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for turn in range(20):
                index.put(IndexedText(f"{number}-{turn}", {"text": f"word{number} common"}))
                assert f"{number}-0" in keys(index, f"word{number}", limit=100)
        except BaseException as problem:
            failures.append(problem)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not failures and len(index) == 121


def test_a_file_is_there_again_and_begins_empty_for_other_columns(tmp_path: Path) -> None:
    path = tmp_path / "index.db"
    with Index({"text": 1.0}, path) as index:
        index.put(IndexedText("a", {"text": "kept"}))
    with Index({"text": 2.0}, path) as again:
        assert keys(again, "kept") == ["a"]
    with Index({"text": 1.0, "more": 1.0}, path) as other:
        assert len(other) == 0


def test_a_file_that_is_not_an_index_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("these are not bytes of a database " * 100)
    with pytest.raises(ConfigError, match=r"notes\.txt: expected a search index"):
        Index({"text": 1.0}, path)
    with pytest.raises(ConfigError, match="unable to open"):
        Index({"text": 1.0}, tmp_path / "no such folder" / "index.db")


def test_an_sqlite_without_the_module_is_an_error() -> None:
    connection = sqlite3.connect(":memory:")
    require(connection, "fts5")
    with pytest.raises(ConfigError, match=r"expected SQLite with fts9; version \d"):
        require(connection, "fts9")
    connection.close()


def test_an_unused_index_closes_its_database(tmp_path: Path) -> None:
    index = Index({"text": 1.0}, tmp_path / "index.db")
    closer = weakref.ref(index)
    del index
    gc.collect()
    assert closer() is None
    assert not (tmp_path / "index.db-wal").exists()


def test_many_documents_are_searched() -> None:
    words = [f"term{number}" for number in range(400)]
    index = Index({"title": 4.0, "text": 1.0})
    texts = (" ".join(words[(number * step) % 400] for step in range(1, 60)) for number in range(2_000))
    index.put(
        *(IndexedText(str(number), {"title": words[number % 400], "text": text}) for number, text in enumerate(texts))
    )
    hits = index.search("term7 term9 term1", limit=20, snippets=("text",))
    assert len(hits) == 20 and all(hit.snippets["text"] for hit in hits)


@pytest.mark.parametrize("kept", [True, False], ids=["in a file", "in memory"])
def test_a_statement_is_interrupted_at_the_end_of_its_time(tmp_path: Path, kept: bool) -> None:
    """Issue 11 item 6: the index answers again afterwards, also to the thread that was interrupted."""
    with Index({"text": 1.0}, tmp_path / "index" if kept else None) as index:
        index.put(IndexedText("a", {"text": "word"}))
        endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
        with (
            pytest.raises(TimedOut, match=r"took longer than 0\.05 seconds"),
            index.within_seconds(0.05),
            index._reading() as connection,
        ):
            connection.execute(endless).fetchone()
        with pytest.raises(TimedOut), index.within_seconds(0.0):
            index.search("word")
        assert keys(index, "word") == ["a"]


def test_a_word_that_no_text_can_have_is_not_corrected() -> None:
    """Issue 11 item 6: a word of 1,000 letters has 74,000 neighbours of 1,000 letters each."""
    index = index_of("a" * 64)
    assert index.read("a" * 32 + "b" + "a" * 31).suggestion == "a" * 64
    assert index.read("b" + "a" * 64).suggestion is None


def test_words_are_stored_again_after_another_connection_emptied_the_index(tmp_path: Path) -> None:
    """An index remembers which words it has stored; what another process does to the file ends that memory."""
    with Index({"text": 1.0}, tmp_path / "index") as one, Index({"text": 1.0}, tmp_path / "index") as other:
        one.put(IndexedText("a", {"text": "pumpkin"}))
        other.clear()
        one.put(IndexedText("a", {"text": "pumpkin"}))
        assert one.read("pumpkni ").suggestion == "pumpkin "


def test_words_of_a_refused_write_are_stored_by_the_next_one() -> None:
    with Index({"text": 1.0}) as index:
        with pytest.raises(ValueError, match="no other"):
            index.put(IndexedText("a", {"text": "pumpkin"}), IndexedText("b", {"other": "pie"}))
        index.put(IndexedText("a", {"text": "pumpkin"}))
        assert index.read("pumpkni ").suggestion == "pumpkin "
