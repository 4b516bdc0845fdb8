"""Random grant documents and principals, made of names that meet each other often."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from patchbay.access.principals import OPERATOR, Principal

IDS = ("ann", "key:robot", "https://issuer.example#ben", "local")
GROUPS = ("team", "staff", "ann")
"""`ann` is also an id: a group of that name hides it."""

PATTERNS = (
    *("*", "*.*", "notes", "notes.*", "no*", "lone", "lone.lone", "bash.tools", "bash.tools.*", "bash", "bash.*", "b*"),
    *("notes.search", "notes.s*", "notes.peek", "notes.relay", "notes.note", "*.delete_*", "*.run", "bash.tools.run"),
    *(
        "notes.notes://*",
        "notes.notes://plan",
        "notes.note://{id}",
        "notes.note://*",
        "notes.ask",
        "*.scold",
        "n?tes.ask",
    ),
    *("*.scold", "n?tes.ask", "room.*", "mcp", "echo", "Notes", "notes.Search"),
)

names = st.lists(st.sampled_from([*IDS, *GROUPS, "*"]), min_size=1, max_size=3)
patterns = st.lists(st.sampled_from(PATTERNS), min_size=1, max_size=3)
uses = st.lists(st.sampled_from(["see", "call", "read"]), min_size=1, max_size=3, unique=True)
rows = st.fixed_dictionaries({"to": names, "may": uses, "on": patterns})
operated = st.sampled_from([["*"], ["notes"], ["lone", "notes"]])
operators = st.fixed_dictionaries({"to": names, "may": st.just(["operate"]), "on": operated})
members = st.lists(st.sampled_from(IDS), max_size=2)
denials = st.fixed_dictionaries({"to": names, "on": patterns})

documents: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    *[
        st.fixed_dictionaries(
            {},
            optional={
                "groups": st.dictionaries(
                    st.sampled_from(GROUPS), st.lists(st.sampled_from(IDS), max_size=2), max_size=2
                ),
                "grants": st.lists(st.one_of(rows, rows, rows, operators), max_size=5),
                "denials": st.lists(denials, max_size=3),
            },
        )
    ]
    * 4,
)
"""A document, or None: no variable `access`."""

scopes = st.frozensets(st.sampled_from(["see", "call", "read", "call:notes.*", "read:notes", "openid"]), max_size=3)

principals = st.one_of(
    st.just(OPERATOR),
    st.builds(
        Principal,
        st.sampled_from(["ann", "key:robot", "local", "carl"]),
        groups=st.frozensets(st.sampled_from(["team", "staff"]), max_size=2),
        scopes=st.one_of(st.none(), st.none(), scopes),
    ),
    st.builds(Principal, st.just("ben"), issuer=st.just("https://issuer.example")),
)
