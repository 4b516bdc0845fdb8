"""What a search answers: a page of documents with their lines, sections and texts, as JSON and to read.

A document is read when it is shown: one that is gone, or another than the index says, shows that the index is behind,
and the answer says so. An answer is bounded: `nextOffset` says where the rest begins.
Sources: REQUIREMENTS JANE-8, JANE-17, JANE-C10.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import orjson

from patchbay.documents.collection import Library
from patchbay.documents.errors import NoDocument, Unreadable
from patchbay.documents.index import Document, DocumentRow
from patchbay.documents.passages import passages
from patchbay.documents.search import DocumentHit, Search, is_all

DEFAULT_LIMIT = 20
"""How many documents a page of results has, where nothing else is asked for."""

MAX_LIMIT = 1000
"""How many documents a page of results has at most; as many has a page of all documents."""

MAX_ANSWER_BYTES = 300_000
"""Bytes of the results of one page as JSON, without texts of documents; what would not fit is on the next page."""

MAX_CONTENT_BYTES = 400_000
"""Bytes of the texts of documents in one page; one that would not fit is left out."""

LEFT_OUT = "(left out here, because it is long: read the document)"

Json = dict[str, Any]


def answered(
    library: Library,
    query: str,
    where: Mapping[str, str],
    summary: Callable[[DocumentRow], Json],
    limit: int | None = None,
    offset: int = 0,
    with_content: bool = False,
) -> Json:
    """A page of results. `summary` says what is shown of a row, at least `uri` and `title`."""
    library.catch_up()
    most = limit or (MAX_LIMIT if is_all(query) else DEFAULT_LIMIT)
    found = library.search(query, where, most, offset)
    results: list[Json] = []
    shown, gone, size, room = 0, 0, 0, MAX_CONTENT_BYTES if with_content else 0
    for hit in found.hits:
        shown += 1
        document = _current(library, hit)
        if document is None:
            gone += 1
            continue
        result = _result(found, hit, document, summary)
        size += len(orjson.dumps(result))
        if size > MAX_ANSWER_BYTES and results:
            shown -= 1
            break
        if with_content:
            length = len(document.front.body.encode())
            result |= {"content": document.front.body} if length <= room else {"contentLeftOut": True}
            room -= length if length <= room else 0
        results.append(result)
    value = {"query": query, "total": found.total - gone, "every": found.every, "results": results}
    if offset + shown < found.total and shown:
        value["nextOffset"] = offset + shown
    if found.suggestion is not None:
        value["didYouMean"] = found.suggestion
    return value | behind(library)


def behind(library: Library) -> Json:
    """What an answer says of an index that lacks something: `behind`, and `pending` where the number is known."""
    if not library.behind:
        return {}
    return {"behind": True} | ({"pending": library.pending} if library.pending else {})


def told(value: Json) -> str:
    """A page of results for reading."""
    late = ""
    if value.get("behind"):
        count = f"{value['pending']} documents" if value.get("pending") else "some changes"
        late = f"The index is behind the folder: {count} are still to be taken in. Search again in a moment."
    meant = f"Did you mean: {value['didYouMean']}" if "didYouMean" in value else ""
    if not value["results"]:
        return "\n\n".join(filter(None, ("No document was found.", meant, late)))
    some = "" if value["every"] else " Few have all the words; those with some of them are here too."
    least = "At least " if value.get("behind") else ""
    parts = [f"{least}{value['total']} found, {len(value['results'])} shown.{some}", meant, late]
    parts += [_told(one) for one in value["results"]]
    if "nextOffset" in value:
        parts.append(f"There are more: search again with offset {value['nextOffset']}.")
    return "\n\n".join(filter(None, parts))


def _current(library: Library, hit: DocumentHit) -> Document | None:
    """A found document as it is now; None where it is gone."""
    try:
        document = library.read(hit.row.key)
    except NoDocument:
        library.notice()
        return None
    except Unreadable:
        return None
    if document.row.cid != hit.row.cid:
        library.notice()
    return document


def _result(found: Search, hit: DocumentHit, document: Document, summary: Callable[[DocumentRow], Json]) -> Json:
    where = passages(found.reading, document.front.body, document.front.lines)
    result = summary(hit.row) | {"score": hit.score}
    if where.section is not None:
        result["section"] = {"title": where.section.title, "anchor": where.section.anchor}
    result["matches"] = [{"line": match.line, "text": match.text} for match in where.lines]
    return result


def _told(one: Json) -> str:
    section = one.get("section")
    address = f"{one['uri']} (score {one['score']:g})"
    lines = [f"## {one['title']}", address]
    lines += [f"Section: {section['title']} (#{section['anchor']})"] if section else []
    lines += [one["description"]] if one.get("description") else []
    lines += [f"Tags: {', '.join(one['tags'])}"] if one.get("tags") else []
    lines += [f"- line {match['line']}: {match['text']}" for match in one["matches"]]
    lines += ["", one["content"]] if "content" in one else []
    lines += ["", LEFT_OUT] if "contentLeftOut" in one else []
    return "\n".join(lines)
