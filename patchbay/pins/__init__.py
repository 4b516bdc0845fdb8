"""Pins: the operator's approval of what other servers list, bound to the exact bytes.

    documents.py      the document of pins of one server, as a value and as JSON
    records.py        the documents in the store: the last good one, changes with history
    observation.py    what a server lists now, compared with its pins and recorded
    enforcement.py    which entries of a list are served
    approval.py       what waits for approval, and its approval
    transfer.py       approvals as a JSON document for another hub
    explanation.py    what a change means: fields, schemas, hidden characters
    model_instructions.py   sentences of a change that address a model

Source: SEP-1766 (digests of tools).
"""
