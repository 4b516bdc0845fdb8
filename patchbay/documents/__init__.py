"""A library: a folder of Markdown documents with front matter, its versions, and a search over all of them.

    library.py     what a library is to those who use it: read, list, search, create, update, history
    paths.py       which paths a document may have
    disk.py        the only file that touches the folder: nothing is followed out of it, nothing is half written
    front.py       the YAML or TOML at the head of a document, changed without disturbing what is not meant
    history.py     every version under its CID
    shelf.py       what is on the disk, kept in step: rows in memory, words in the index
    watching.py    looks at the folder when the kernel tells of a change
    searching.py   the documents that fit a query, best first
    passages.py    the lines and the section of a document that match; headings.py: its headings and title
    answers.py     what a search answers, as JSON and to read
    notices.py     who hears that a document changed

Rules: the folder is the truth and everything else can be made again from it, but the history; a write is
acknowledged when file, history and index have it; no reader waits for a writer.
"""
