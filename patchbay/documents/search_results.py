"""The results of a search: a page of documents with their lines, sections and texts, as JSON and as text.

Each document is read when its result is made. A deleted or changed document shows that the index lacks changes, and the
answer reports that. The size of an answer is bounded: `nextOffset` is the offset of the next page.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import orjson

from patchbay.documents.collection import Library
from patchbay.documents.errors import NoDocument, Unreadable
from patchbay.documents.headings import Heading
from patchbay.documents.index import Document, DocumentRow
from patchbay.documents.passages import passages
from patchbay.documents.search import DocumentHit, MayFind, Search, is_all, may_find_all
from patchbay.documents.sections import sections

DEFAULT_LIMIT = 20
"""Documents in a page of results, unless the caller asks for another number."""

MAX_LIMIT = 1000
"""Limit on the documents in a page of results; also the default for a list of all documents."""

MAX_ANSWER_BYTES = 300_000
"""Limit on the JSON of one page, without the texts of documents; further results go to the next page."""

MAX_CONTENT_BYTES = 400_000
"""Limit on the texts of documents in one page; the page leaves out texts beyond it."""

LEFT_OUT = "(the text is too long for this page: read the document)"

Json = dict[str, Any]


def answered(
    library: Library,
    query: str,
    where: Mapping[str, str],
    summary: Callable[[DocumentRow], Json],
    limit: int | None = None,
    offset: int = 0,
    with_content: bool = False,
    may_find: MayFind = may_find_all,
) -> Json:
    """Return a page of results as JSON. `summary` returns the members of a row, at least `uri` and `title`.

    Only paths that `may_find` are ranked by meaning; the caller filters the results that are found by words.
    """
    library.catch_up()
    most = limit or (MAX_LIMIT if is_all(query) else DEFAULT_LIMIT)
    found = library.search(query, where, most, offset, may_find)
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
    """Return the members for an index that lacks changes: `behind`, and `pending` if the number is known."""
    if not library.behind:
        return {}
    return {"behind": True} | ({"pending": library.pending} if library.pending else {})


def told(value: Json) -> str:
    """Return a page of results as text."""
    late = ""
    if value.get("behind"):
        count = f"{value['pending']} documents" if value.get("pending") else "some changes"
        late = f"The index is behind the folder: {count} are not indexed yet. Search again in a moment."
    meant = f"Did you mean: {value['didYouMean']}" if "didYouMean" in value else ""
    if not value["results"]:
        return "\n\n".join(filter(None, ("No document was found.", meant, late)))
    some = "" if value["every"] else " Documents with some of the words are listed too."
    if any(one.get("why") == "meaning" for one in value["results"]):
        some = " Documents with some of the words, or of a similar meaning, are listed too."
    least = "At least " if value.get("behind") else ""
    parts = [f"{least}{value['total']} found, {len(value['results'])} shown.{some}", meant, late]
    parts += [_result_as_text(one) for one in value["results"]]
    if "nextOffset" in value:
        parts.append(f"There are more: search again with offset {value['nextOffset']}.")
    return "\n\n".join(filter(None, parts))


def _current(library: Library, hit: DocumentHit) -> Document | None:
    """Return the present document of a hit; None if it is deleted or unreadable."""
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
    result = summary(hit.row) | {"score": hit.score} | ({"why": hit.why} if hit.why else {})
    section = _near_section(hit, document) if hit.why == "meaning" or where.section is None else where.section
    if section is not None:
        result["section"] = {"title": section.title, "anchor": section.anchor}
    result["matches"] = [{"line": match.line, "text": match.text} for match in where.lines]
    return result


def _near_section(hit: DocumentHit, document: Document) -> Heading | None:
    """Return the heading of the section that is nearest to the query; None before the first heading."""
    if hit.near is None:
        return None
    found = sections(document.row.title, document.front.body)
    return found[hit.near].heading if hit.near < len(found) else None


def _result_as_text(one: Json) -> str:
    section = one.get("section")
    address = f"{one['uri']} (score {one['score']:g})"
    lines = [f"## {one['title']}", address]
    lines += [f"Section: {section['title']} (#{section['anchor']})"] if section else []
    lines += ["Found by its meaning; it has none of the words."] if one.get("why") == "meaning" else []
    lines += [one["description"]] if one.get("description") else []
    lines += [f"Tags: {', '.join(one['tags'])}"] if one.get("tags") else []
    lines += [f"- line {match['line']}: {match['text']}" for match in one["matches"]]
    lines += ["", one["content"]] if "content" in one else []
    lines += ["", LEFT_OUT] if "contentLeftOut" in one else []
    return "\n".join(lines)
