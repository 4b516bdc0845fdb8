"""HTTP APIs as servers: each operation of an OpenAPI document is a tool.

configuration.py   the configuration as a value
standing_api.py    the document: read, compared with its pins, read again
remote_parts.py    parts of a document that are at other URLs
tool_names.py      names that people would choose
tools.py           operations as descriptors
selection.py       which operations are served
caller_sign_in.py  where callers sign in with their own accounts
credentials.py     what the security schemes of the document add to a request
files.py           arguments that are files
handler.py         a call: requests, retry, pages
answers.py         an answer as events
next_page.py       the page after an answer
"""
