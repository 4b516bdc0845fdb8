"""Searching: the right documents of a corpus of other projects, with the matching lines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from patchbay.documents.collection import Library
from patchbay.documents.headings import share_of_heading
from patchbay.documents.passages import passages
from patchbay.documents.search import MAX_OFFSET, MAX_QUERY_CHARACTERS, search
from patchbay.documents.search_results import answered
from patchbay.errors import TimedOut, WrongArguments
from tests.documents.corpus import unpack

pytestmark = [pytest.mark.process]

TABLE = [
    ("validate request body with json schema", "Reference/Validation-and-Serialization.md"),
    ("hook that runs before sending the response", "Reference/Hooks.md"),
    ("delay accepting requests until ready", "Guides/Delay-Accepting-Requests.md"),
    ("how to detect that the client aborted", "Guides/Detecting-When-Clients-Abort.md"),
    ("__proto__ attack", "Guides/Prototype-Poisoning.md"),
    ("deploy to aws lambda", "Guides/Serverless.md"),
    ("redact authorization header in logs", "Reference/Logging.md"),
    ("custom content type parser", "Reference/ContentTypeParser.md"),
    ("decorateRequest", "Reference/Decorators.md"),
    ("http2 over tls allowHTTP1", "Reference/HTTP2.md"),
    ("connect to mongodb", "Guides/Database.md"),
    ("test routes with inject", "Guides/Testing.md"),
    ("reverse proxy nginx haproxy", "Guides/Recommendations.md"),
    ("long term support schedule", "Reference/LTS.md"),
    ("express middleware", "Reference/Middleware.md"),
    ("fluent-json-schema", "Guides/Fluent-Schema.md"),
    ("FST_ERR_CTP_BODY_TOO_LARGE", "Reference/Errors.md"),
    ("requestTimeout option", "Reference/Server.md"),
    ("encapsulation context", "Reference/Encapsulation.md"),
    ("autocannon", "Guides/Benchmarking.md"),
    ('"version constraints"', "Reference/Routes.md"),
    ("retry failed requests", "api/RetryHandler.md"),
    ("mocking requests in unit tests", "best-practices/mocking-request.md"),
    ("client certificate authentication", "best-practices/client-certificate.md"),
    ("NO_PROXY environment variable", "api/EnvHttpProxyAgent.md"),
    ("parse set-cookie header", "api/Cookies.md"),
    ("websocket ping frame", "api/WebSocket.md"),
    ("server-sent events", "api/EventSource.md"),
    ("diagnostics_channel", "api/DiagnosticsChannel.md"),
    ("record and replay http responses", "api/SnapshotAgent.md"),
    ("NODE_DEBUG=fetch", "api/Debug.md"),
    ("type provider zod typebox", "Reference/Type-Providers.md"),
    ("typescr*", "Reference/TypeScript.md"),
    ("load balanc*", "api/BalancedPool.md"),
]
"""A question, and the end of the path of the document that has to be among the first three results."""


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    folder = tmp_path_factory.mktemp("corpus")
    assert unpack(folder) > 70
    with Library(folder) as library:
        library.refresh()
        yield library


def test_there_are_thirty_questions() -> None:
    assert len({question for question, _ in TABLE}) >= 30


@pytest.mark.parametrize(("question", "path"), TABLE)
def test_the_right_document_is_among_the_first_three(corpus: Library, question: str, path: str) -> None:
    """JANE-8, JANE-21: found in the documentation of other people's projects."""
    first = [hit.row.key for hit in corpus.search(question).hits[:3]]
    assert any(key.endswith(path) for key in first), first


@pytest.mark.parametrize(
    ("where", "begin", "some"),
    [
        ({"top": "specs"}, "specs/", True),
        ({"top": "stdlib"}, "stdlib/", True),
        ({"grp": "specs/fastify"}, "specs/fastify/", True),
        ({"grp": "stdlib/python"}, "", False),
        ({"top": "specs", "grp": "stdlib/javascript"}, "", False),
    ],
)
@pytest.mark.parametrize("query", ["*", "", "request", "retr*"])
def test_a_filter_restricts_the_results(
    corpus: Library, query: str, where: dict[str, str], begin: str, some: bool
) -> None:
    """JANE-8 (A-F3): a language excludes specifications, a project standard libraries."""
    hits = corpus.search(query, where, 1000).hits
    assert all(hit.row.key.startswith(begin) for hit in hits) and bool(hits) is some


def test_a_star_is_every_document_by_title(corpus: Library) -> None:
    found = corpus.search("*", limit=1000)
    assert found.total == len(found.hits) == len(corpus.rows())
    titles = [hit.row.title.casefold() for hit in found.hits]
    assert titles == sorted(titles)


def test_matches_have_the_numbers_of_their_lines_in_the_file(corpus: Library) -> None:
    """JANE-17, JANE-C10."""
    found = corpus.search('"content type parser"')
    seen = 0
    for hit in found.hits:
        document = corpus.read(hit.row.key)
        lines = document.text.split("\n")
        for match in passages(found.reading, document.front.body, document.front.lines).lines:
            plain = match.text.replace("**", "").strip("…").strip()
            assert plain in lines[match.line - 1].replace("**", "") and "**" in match.text
            seen += 1
    assert seen > 5 and all(hit.score > 0 for hit in found.hits)


def test_line_numbers_count_the_front_matter_too(library: Library) -> None:
    document = library.create("a.md", {"title": "A"}, "one\ntwo pumpkins\n")
    (match,) = passages(library.search("pumpkin").reading, document.front.body, document.front.lines).lines
    assert document.text.split("\n")[match.line - 1] == "two pumpkins" and match.text == "two **pumpkins**"


def test_a_title_comes_before_any_number_of_mentions(library: Library) -> None:
    """JANE-8: ranking puts title before body."""
    library.create("many.md", {"title": "Everything"}, "pumpkin " * 500)
    for number in range(5):
        library.create(f"{number}.md", {"title": f"Soup {number}"}, "pumpkin " * 50)
    library.create("one.md", {"title": "Pumpkin"}, "A vegetable, described at length. " * 500)
    hits = library.search("pumpkin").hits
    assert hits[0].row.key == "one.md" and len(hits) == 7
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


def test_phrases_prefixes_and_words_have_different_results(library: Library) -> None:
    """JANE-8: phrase and prefix queries."""
    library.create("a.md", {}, "the quick brown fox")
    library.create("b.md", {}, "brown is quick to fade; fox")
    library.create("c.md", {}, "brownish foxglove")
    found = {
        query: {hit.row.key for hit in library.search(query).hits}
        for query in ('"quick brown"', "quick brown ", "foxgl*", "brown* x")
    }
    assert found['"quick brown"'] == {"a.md"}
    assert found["quick brown "] == {"a.md", "b.md"}
    assert found["foxgl*"] == {"c.md"}
    assert found["brown* x"] == {"a.md", "b.md", "c.md"}


@pytest.mark.parametrize(
    "query",
    ['"', "*:", "NEAR(a b)", "title:x", "a AND", "(", "-x", "{c_body}: a", "'; DROP TABLE entry", "\0", "\ud800"],
)
def test_operators_in_a_query_have_no_special_meaning(library: Library, query: str) -> None:
    """JANE-15: and they do not break the search."""
    library.create("a.md", {}, "pumpkin")
    library.search(query)
    assert [hit.row.key for hit in library.search("pumpkin").hits] == ["a.md"]


def test_words_of_tags_descriptions_and_paths_are_found(library: Library, tmp_path: Path) -> None:
    """JANE-8: content or metadata."""
    library.create("kitchen/soup.md", {"title": "T", "description": "with ginger", "tags": ["autumn"]}, "text")
    for query in ("ginger", "autumn", "kitchen", "soup"):
        assert [hit.row.key for hit in library.search(query).hits] == ["kitchen/soup.md"], query


FORMS = [
    ("how to call createIssue", ["create issue", "createIssue", "create_issue", "creates issues"]),
    ("see os.path.join here", ["os.path.join", "path.join"]),
    ("written in C++ and C#", ["C++", "c#", "C++ written"]),
    ("made for .NET", [".NET"]),
    ("we won 🎉 twice", ["🎉", "won 🎉"]),
    ("Die Datenbankverbindungen prüfen", ["Verbindung", "Datenbank", "Datenbankverbindung", "prüfe"]),
    ("Verbindung zur Datenbank", ["Datenbankverbindung", "Verbindungen", "Datenbanken"]),
    ("les requêtes validées", ["requête", "requete validée", "valider une requête"]),
    ("las respuestas adicionales", ["respuesta adicional"]),
    ("обработка ошибок", ["ошибка", "обработку ошибки"]),
]
"""A text, and the queries that find it."""


@pytest.mark.parametrize(("text", "query"), [(text, query) for text, queries in FORMS for query in queries])
def test_words_are_found_in_every_form(library: Library, text: str, query: str) -> None:
    """JANE-8: identifiers, signs, emoji, inflected and compound words."""
    library.create("a.md", {"title": "T"}, text)
    library.create("b.md", {"title": "T"}, "written in C, of other things")
    assert [hit.row.key for hit in library.search(query).hits][:1] == ["a.md"], query


def test_a_language_name_with_a_sign_differs_from_its_letter(library: Library) -> None:
    for name, text in (("c", "C"), ("cpp", "C++"), ("csharp", "C#")):
        library.create(f"{name}.md", {"title": "T"}, f"a program in {text}, for instance")
    assert [hit.row.key for hit in library.search("C++").hits] == ["cpp.md"]
    assert [hit.row.key for hit in library.search("C#").hits] == ["csharp.md"]


@pytest.mark.parametrize(
    ("typed", "meant"), [("pumkin", "pumpkin"), ("upmpkin soup", "pumpkin soup"), ("конфигурацыя", "конфигурация")]
)
def test_a_misspelled_word_finds_its_correction_and_suggests_it(library: Library, typed: str, meant: str) -> None:
    """JANE-8: "did you mean"."""
    library.create("a.md", {"title": "T"}, "pumpkin soup, конфигурация")
    library.create("b.md", {"title": "T"}, "other")
    found = library.search(typed)
    assert [hit.row.key for hit in found.hits] == ["a.md"] and found.suggestion == meant
    assert library.search(meant).suggestion is None
    assert library.search("zzzzqqqq").suggestion is None


def test_a_whole_identifier_ranks_before_its_parts(library: Library) -> None:
    for number in range(6):
        library.create(f"{number}.md", {"title": "T"}, "the request has an id, and the id is of a request " * 5)
    library.create("exact.md", {"title": "T"}, "the field request_id, once in a text about other things " + "so " * 200)
    assert library.search("request_id").hits[0].row.key == "exact.md"


def test_the_weight_of_a_title_decides_between_a_title_and_a_text(library: Library) -> None:
    """JANE-8: in the index alone, without the ranking of titles: four mentions do not outweigh a title."""
    library.create("a.md", {"title": "Nothing of it"}, "pumpkin pumpkin pumpkin pumpkin here")
    library.create("b.md", {"title": "A pumpkin"}, "nothing of it, of it, of it, of it here")
    assert [hit.key for hit in library._index.index.find_documents('"pumpkin"', 2)] == ["b.md", "a.md"]


def test_the_total_is_exact_and_pages_join_without_gaps(library: Library, root: Path) -> None:
    """JANE-8: 450 documents, more than are ranked at once."""
    for number in range(450):
        (root / f"{number:03}.md").write_text(f"# T {number}\n\npumpkin {'pie ' * (number % 7)}")
    library.refresh()
    pages = [library.search("pumpkin", limit=100, offset=offset) for offset in range(0, 500, 100)]
    assert {page.total for page in pages} == {450}
    assert [len(page.hits) for page in pages] == [100, 100, 100, 100, 50]
    assert len({hit.row.key for page in pages for hit in page.hits}) == 450
    scores = [hit.score for page in pages for hit in page.hits]
    assert scores == sorted(scores, reverse=True)
    assert library.search("*", limit=10, offset=445).total == 450


def test_a_search_that_takes_too_long_ends_and_keeps_the_index(library: Library, root: Path) -> None:
    """JANE-8: an interrupted index is not damaged, and is not rebuilt."""
    library.create("a.md", {"title": "Words"}, "some words")
    before = library._index.index
    with pytest.raises(TimedOut, match="was ended: use fewer words"):
        search(library._index, "words", {}, 10, seconds=0.0)
    assert library._index.index is before
    assert [hit.row.key for hit in library.search("words").hits] == ["a.md"]


def test_a_query_and_an_offset_have_a_limit(library: Library) -> None:
    library.search("w" * MAX_QUERY_CHARACTERS, offset=MAX_OFFSET)
    with pytest.raises(WrongArguments, match="expected at most 4000"):
        library.search("w" * (MAX_QUERY_CHARACTERS + 1))
    with pytest.raises(WrongArguments, match="from 0 to 1000000"):
        library.search("w", offset=MAX_OFFSET + 1)


def test_the_heading_that_is_an_identifier_comes_first(library: Library, root: Path) -> None:
    """34.17: before documents that have the identifier, or its parts, more often; other identifiers are not marked."""
    (root / "hooks.md").write_text("# Hooks\n\n## onError\n\nonError of a request\n\n### `onRequest`\n\nruns first\n")
    (root / "requests.md").write_text("# On a request\n\non request, a request on requests\n" * 5)
    (root / "lifecycle.md").write_text("# Lifecycle\n\n## onRequest and onSend\n\nonRequest onRequest onRequest\n")
    (root / "python.md").write_text("# Python\n\n### on_request\n\ntext\n")
    library.refresh()
    assert [hit.row.key for hit in library.search("onRequest").hits][:3] == ["hooks.md", "python.md", "lifecycle.md"]
    found = answered(library, "onRequest", {}, lambda row: {"uri": row.key, "title": row.title})["results"][0]
    assert found["section"]["title"] == "onRequest"
    assert [match["text"] for match in found["matches"]] == ["### `**onRequest**`"]


@pytest.mark.parametrize(
    ("title", "name", "share"),
    [
        ("onRequest", "onRequest", 1.0),
        (".code(statusCode)", "code", 1.0),
        ("Class: ProxyAgent", "ProxyAgent", 1.0),
        ("depthLimit (Number)", "depthLimit", 1.0),
        ("logger.setBindings(bindings)", "setBindings", 1.0),
        ("on_request", "onRequest", 0.9),
        ("OAuth Proxy", "OAuthProxy", 0.9),
        ("onRequest and onSend", "onRequest", 0.75),
        ("The hook onRequest", "onRequest", 0.5),
        ("onError", "onRequest", 0.0),
    ],
)
def test_a_heading_is_an_identifier_in_part_or_as_a_whole(title: str, name: str, share: float) -> None:
    """34.17: parameters and kinds do not count."""
    assert share_of_heading(title, name) == pytest.approx(share)


def test_a_short_query_finds_a_document_that_is_named_after_one_of_its_words(library: Library, root: Path) -> None:
    """34.17: also when enough other documents have both words somewhere."""
    for number in range(6):
        (root / f"notes-{number}.md").write_text(f"# Notes {number}\n\nlifespan and, much later, some events\n")
    (root / "lifespan.md").write_text("# Lifespan\n\nstartup and shutdown\n")
    (root / "other.md").write_text("# Other\n\nthe lifespan of a cat\n")
    library.refresh()
    found = library.search("lifespan events")
    assert found.hits[0].row.key == "lifespan.md"
    assert (found.total, found.every) == (7, False), "a word in the text alone is not enough"
