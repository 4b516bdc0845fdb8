"""Jane: a library of documents. Standard libraries by language and specifications by project, in Markdown.

The documents are files in a folder (`JANE_DIR`), which other programs can edit too. `patchbay.jane` stores and searches
them; this file has the tools.
"""

from difflib import get_close_matches
from typing import Any, Literal

from patchbay import BadPath, Data, NoDocument, ProtocolError, ResourceNotFound, ToolFailed, Unreadable, jane

_SERVER_ERROR = -32000
_WAIT = 20.0
_SUMMARY = "You summarize documents. Keep to what the document says; answer in Markdown, in its own language."

Type = Literal["stdlib", "spec"]


def get_stdlib(context, language: str, path: str) -> Data:
    """Retrieve a standard library document for a specific language.

    Args:
        language: The language, as list_stdlibs says it.
        path: The document's path within the language, such as arrays/map.md.
    """
    return _shown(*_read(context, jane.STDLIB, language, path))


def get_spec(context, project: str, path: str) -> Data:
    """Retrieve a specification document for a specific project.

    Args:
        project: The project, as list_specs says it.
        path: The document's path within the project, such as api/errors.md.
    """
    return _shown(*_read(context, jane.SPEC, project, path))


def list_stdlibs(context, language: str | None = None) -> Data:
    """List the languages that have standard library documents, or the documents of one language.

    Args:
        language: The language whose documents to list.
    """
    return _listed(context, jane.STDLIB, language, "languages")


def list_specs(context, project: str | None = None) -> Data:
    """List the projects that have specification documents, or the documents of one project.

    Args:
        project: The project whose documents to list.
    """
    return _listed(context, jane.SPEC, project, "projects")


def search(
    context,
    query: str,
    type: Type | None = None,
    language: str | None = None,
    project: str | None = None,
    includeContent: bool = False,
    limit: int | None = None,
    offset: int = 0,
) -> Data:
    """Search for documents by content or metadata.

    Args:
        query: Words; "a phrase" in double quotes, begin* for words that begin so, * for all documents.
        type: Only documents of this type.
        language: Only standard library documents of this language.
        project: Only specification documents of this project.
        includeContent: Whether to give each document's text too.
        limit: How many documents to show at most; 20 if not given.
        offset: How many documents to leave out at the beginning, as nextOffset says it.
    """
    library = jane.opened(context)
    _settled(context, library)
    where = _where(type, language, project)
    if where is None:
        return Data({"query": query, "total": 0, "every": True, "results": []}, None, "No document is of both kinds.")
    value = jane.answered(library, query, where, jane.summary, limit, offset, includeContent)
    return Data(value, None, jane.told(value))


def create_document(
    context,
    type: Type,
    path: str,
    title: str,
    content: str,
    language: str | None = None,
    project: str | None = None,
    description: str | None = None,
    author: str | None = None,
    tags: list[str] | None = None,
) -> Data:
    """Create a new document with frontmatter metadata.

    Args:
        type: Where it belongs.
        path: Its path within the language or project; it ends in .md.
        title: Its title.
        content: Its text in Markdown, without front matter.
        language: The language, for type stdlib.
        project: The project, for type spec.
        description: What it is about, in a sentence.
        author: Who wrote it.
        tags: Words to find it by.
    """
    collection, group = jane.chosen(type, language, project)
    given = {"title": title, "description": description, "author": author, "tags": tags}
    metadata = {name: value for name, value in given.items() if value is not None}
    document = jane.opened(context).create(collection.key(group, path), metadata, content)
    return _written(document, "Created")


def update_document(
    context,
    type: Type,
    path: str,
    language: str | None = None,
    project: str | None = None,
    title: str | None = None,
    description: str | None = None,
    author: str | None = None,
    tags: list[str] | None = None,
    content: str | None = None,
    updateMeta: bool = True,
    expected_cid: str | None = None,
) -> Data:
    """Update an existing document's content and/or metadata; what is not given stays as it is.

    Args:
        type: Where it belongs.
        path: Its path within the language or project.
        language: The language, for type stdlib.
        project: The project, for type spec.
        title: Its new title.
        description: What it is about from now on.
        author: Who wrote it.
        tags: The words to find it by from now on.
        content: Its new text in Markdown, without front matter.
        updateMeta: Whether title, description, author and tags are used at all.
        expected_cid: The version that the change is made for; any other one is left alone, and the call fails.
    """
    collection, group = jane.chosen(type, language, project)
    given = {"title": title, "description": description, "author": author, "tags": tags} if updateMeta else {}
    changes = {name: value for name, value in given.items() if value is not None}
    key = collection.key(group, path)
    if not changes and content is None:
        raise ToolFailed(f"there is nothing to update in {path}: give content, or metadata with updateMeta true")
    written = _tried(context, key, lambda library: library.update(key, changes, content, expected_cid))
    return _written(written.document, "Updated" if written.changed else "Left as it was:")


def delete_document(context, type: Type, path: str, language: str | None = None, project: str | None = None) -> Data:
    """Delete a document; its versions are kept.

    Args:
        type: Where it belongs.
        path: Its path within the language or project.
        language: The language, for type stdlib.
        project: The project, for type spec.
    """
    collection, group = jane.chosen(type, language, project)
    key = collection.key(group, path)
    _tried(context, key, lambda library: library.delete(key))
    return Data({"uri": collection.uri(group, path), "deleted": True}, None, f"Deleted {collection.uri(group, path)}")


def move_document(
    context, type: Type, path: str, to: str, language: str | None = None, project: str | None = None
) -> Data:
    """Move a document to another path of its language or project.

    Args:
        type: Where it belongs.
        path: Its path now.
        to: Its path from now on.
        language: The language, for type stdlib.
        project: The project, for type spec.
    """
    collection, group = jane.chosen(type, language, project)
    key, target = collection.key(group, path), collection.key(group, to)
    return _written(_tried(context, key, lambda library: library.move(key, target)), "Moved to")


def document_history(
    context,
    type: Type,
    path: str,
    language: str | None = None,
    project: str | None = None,
    cid: str | None = None,
) -> Data:
    """List the versions of a document, newest first, or get the text of one of them.

    Args:
        type: Where it belongs.
        path: Its path within the language or project; it may be deleted.
        language: The language, for type stdlib.
        project: The project, for type spec.
        cid: The version to get.
    """
    collection, group = jane.chosen(type, language, project)
    key, library = collection.key(group, path), jane.opened(context)
    if cid is not None:
        text = library.version(key, cid).text
        return Data({"uri": collection.uri(group, path), "cid": cid, "text": text}, None, text)
    versions = [{"cid": one.cid, "at": one.at, "how": one.how} for one in library.history(key)]
    told = "\n".join(f"- {one['how']}: {one['cid'] or 'nothing'}" for one in versions)
    return Data({"uri": collection.uri(group, path), "versions": versions}, None, told)


# Resources, completions, prompts


def _stdlib_resource(context, language: str, path: str) -> dict[str, Any]:
    return _resource(context, jane.STDLIB, language, path)


def _spec_resource(context, project: str, path: str) -> dict[str, Any]:
    return _resource(context, jane.SPEC, project, path)


def _complete_language(context, value: str, arguments: dict) -> list[str]:
    return _groups(context, jane.STDLIB)


def _complete_project(context, value: str, arguments: dict) -> list[str]:
    return _groups(context, jane.SPEC)


def _complete_stdlib_path(context, value: str, arguments: dict) -> list[str]:
    return _paths(context, jane.STDLIB, arguments.get("language"))


def _complete_spec_path(context, value: str, arguments: dict) -> list[str]:
    return _paths(context, jane.SPEC, arguments.get("project"))


def _complete_uri(context, value: str, arguments: dict) -> list[str]:
    library = jane.opened(context)
    _settled(context, library)
    return [jane.uri_of(row.key) for row in library.rows() if jane.place_of(row.key)]


def _summarize(context, uri: str, length: str = "one paragraph") -> dict[str, Any]:
    """The messages of the prompt `summarize`: the summary, where the client lends its model, else the task."""
    content = context.read(uri)
    task = f"Summarize the document {uri} in {length}."
    document = {"type": "resource", "resource": {key: content[key] for key in ("uri", "mimeType", "text")}}
    asked = [{"role": "user", "content": {"type": "text", "text": task}}, {"role": "user", "content": document}]
    if "sampling" not in context.capabilities:
        return {"messages": asked}
    answer = context.sample(f"{task}\n\n{content['text']}", max_tokens=1000, system_prompt=_SUMMARY)
    return {"messages": [*asked, {"role": "assistant", "content": answer["content"]}]}


# How things are found and told


def _read(context, collection, group: str, path: str):
    key = collection.key(group, path)
    return collection, _tried(context, key, lambda library: library.read(key))


def _tried(context, key: str, do):
    """What an action on a document gives. One that is not there is told with those that are near."""
    library = jane.opened(context)
    try:
        return do(library)
    except NoDocument as problem:
        place = jane.place_of(key)
        assert place is not None
        collection, group, path = place
        known = [row.key.split("/", 2)[2] for row in library.rows(f"{collection.folder}/{group}/")]
        if not known:
            groups = ", ".join(library.groups(collection.folder)) or "none"
            raise NoDocument(
                f"there are no documents of the {collection.group} {group}; there are: {groups}"
            ) from problem
        close = get_close_matches(path, known, 3)
        hint = f"; did you mean {', '.join(close)}?" if close else ""
        raise NoDocument(f"there is no document {path} of the {collection.group} {group}{hint}") from problem


def _resource(context, collection, group: str, path: str) -> dict[str, Any]:
    """The whole file. A file system that fails is Jane's own server error (JANE-14)."""
    uri = collection.uri(group, path)
    try:
        document = jane.opened(context).read(collection.key(group, path))
    except (BadPath, NoDocument) as problem:
        raise ResourceNotFound(uri, problem.message) from problem
    except Unreadable as problem:
        raise ProtocolError(problem.message, _SERVER_ERROR, {"details": problem.message, "uri": uri}) from problem
    meta = {"cid": document.row.cid, "metadata": document.metadata}
    resource = {"uri": uri, "mimeType": "text/markdown", "text": document.text, "_meta": meta}
    return {"type": "resource", "resource": resource}


def _nothing(library, collection, group: str) -> str:
    known = ", ".join(library.groups(collection.folder)) or "none"
    return f"there are no documents of the {collection.group} {group}; there are: {known}"


def _settled(context, library) -> None:
    """Wait for the first look at the disk, saying how far it is."""
    if library.ready(_WAIT, lambda done, total: context.progress(done, total, f"indexed {done} of {total} documents")):
        library.catch_up()


def _groups(context, collection) -> list[str]:
    library = jane.opened(context)
    _settled(context, library)
    return library.groups(collection.folder)


def _paths(context, collection, group: str | None) -> list[str]:
    library = jane.opened(context)
    _settled(context, library)
    begin = f"{collection.folder}/{group}/" if group else f"{collection.folder}/"
    places = [jane.place_of(row.key) for row in library.rows(begin)]
    return sorted({place[2] for place in places if place is not None})


def _where(type: str | None, language: str | None, project: str | None) -> dict[str, str] | None:
    """The filter of a search; None when the filter excludes all documents."""
    if (language and project) or (type == "spec" and language) or (type == "stdlib" and project):
        return None
    if language:
        return {"grp": f"{jane.STDLIB.folder}/{language}"}
    if project:
        return {"grp": f"{jane.SPEC.folder}/{project}"}
    return {"top": {"stdlib": jane.STDLIB.folder, "spec": jane.SPEC.folder}[type]} if type else {}


def _shown(collection, document) -> Data:
    """A document: its title as a heading and its body as text, all that is known of it as structure."""
    row, body = document.row, document.front.body
    value = jane.summary(row) | {"cid": row.cid, "metadata": document.metadata, "content": body}
    begun = body.lstrip().partition("\n")[0].strip()
    return Data(value, None, body if begun == f"# {row.title}" else f"# {row.title}\n\n{body}")


def _written(document, verb: str) -> Data:
    row = document.row
    value = jane.summary(row) | {"cid": row.cid, "metadata": document.metadata}
    return Data(value, None, f"{verb} {value['uri']} (version {row.cid})")


def _listed(context, collection, group: str | None, plural: str) -> Data:
    library = jane.opened(context)
    _settled(context, library)
    if group is None:
        counts = library.counts(collection.folder)
        value = {plural: [{collection.group: one, "documents": count} for one, count in counts.items()]}
        lines = [f"- {one} ({count})" for one, count in counts.items()] or [f"There are no {plural} yet."]
        return Data(value, None, "\n".join(lines))
    rows = library.rows(collection.key(group, "a.md").removesuffix("a.md"))
    if not rows:
        raise ToolFailed(_nothing(library, collection, group))
    documents = [jane.summary(row) for row in rows]
    lines = [
        f"- {one['title']} ({one['path']})" + (f": {one['description']}" if "description" in one else "")
        for one in documents
    ]
    return Data({collection.group: group, "documents": documents}, None, "\n".join(lines))


def _said(document: dict[str, Any]) -> list[str]:
    return [document["description"]] if "description" in document else []
