"""A library: a folder of Markdown documents with front matter, its versions, and a search over all of them.

    collection.py        the interface of a library: read, list, search, create, update, history
    paths.py             the valid paths of documents
    files.py             the only module that touches the folder: no links out of it, no partial writes
    front_matter.py      the YAML or TOML at the head of a document, changed key by key
    history.py           every version under its CID
    index.py             the content of the folder: rows in memory, words in the index
    watching.py          scans the folder when the kernel reports a change
    kernel_reports.py    the reports themselves, which the folder of the servers uses too
    search.py            the documents that match a query, best first
    meaning.py           the vectors of sections, and the documents nearest to a question; sections.py: the sections
    meaning_loop.py      makes missing vectors in the background
    passages.py          the matching lines and section of a document; headings.py: its headings and title
    search_results.py    the results of a search as JSON and as text
    notifications.py     reports changed documents to a listener

Definitions use this package through `patchbay.jane`, and stored definitions keep running: the methods, parameters and
attributes of a library, its documents and its search results are a contract (docs/definitions.md).

Rules: the folder is the source of truth, and the index can be rebuilt from it (the history cannot); a write returns
when the file, the history and the index have it; no reader waits for a writer.
"""
