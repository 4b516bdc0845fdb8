"""What a new document of the variable `access` changes, as one plain sentence for each change. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from patchbay.boot.grants import CALL, OPERATE, READ, SEE, Grant, Grants, Quota
from patchbay.patterns.entries import EVERYTHING
from patchbay.web.access.grant_edits import ASK

MAX_RIGHTS = 20_000
"""Rights (a name, an action and a pattern) of a document that is described, at most."""

MAX_SENTENCES = 100
"""Sentences about one change, at most."""

MAX_NAMED = 8
"""Patterns that one sentence names, at most."""

_ORDER = (SEE, CALL, READ, OPERATE)
_FREE = Grants(grants=(Grant("no variable `access`", (EVERYTHING,), (SEE, CALL, READ), (EVERYTHING,)),))
_Rights = dict[tuple[str, str], frozenset[str]]


def describe_changes(old: Grants | None, new: Grants | None) -> list[str]:
    """Return a sentence for each difference between two documents; None is the absence of rules.

    The sentences name rights as the rows give them, not what a caller has in the end through groups and denials.
    """
    sentences = []
    if old is None and new is not None:
        sentences.append("From now on the hub has access rules: a caller may do only what a grant gives")
    if old is not None and new is None:
        sentences.append("The hub has no access rules any more: everyone whom it admits may use every server")
    before, after = old or _FREE, new or _FREE
    if max(_count_rights(before.grants), _count_rights(after.grants)) > MAX_RIGHTS:
        sentences.append("The rights are too many to compare here: compare the texts")
    else:
        sentences += _describe_rights(_rights(before.grants), _rights(after.grants), {*before.groups, *after.groups})
    sentences += _describe_groups(before.groups, after.groups)
    sentences += _describe_denials(before, after)
    sentences += _describe_quotas(before.quotas, after.quotas)
    more = len(sentences) - MAX_SENTENCES
    return sentences if more <= 0 else [*sentences[:MAX_SENTENCES], f"{more} more changes: compare the texts"]


def _count_rights(rows: Iterable[Grant]) -> int:
    return sum(len(row.to) * len(row.may) * len(row.on) for row in rows)


def _rights(rows: Iterable[Grant]) -> _Rights:
    """Return the actions by name and pattern; a call without an approval wins over one that asks."""
    found: dict[tuple[str, str], set[str]] = defaultdict(set)
    for row in rows:
        actions = {ASK if each == CALL and row.asks else each for each in row.may}
        for name in row.to:
            for pattern in row.on:
                found[name, pattern] |= actions
    return {key: frozenset(each - {ASK} if CALL in each else each) for key, each in found.items()}


def _describe_rights(old: _Rights, new: _Rights, groups: set[str]) -> list[str]:
    """Return the sentences about rights; patterns with the same change of one name share a sentence.

    Everything is apart from patterns, because who operates it is an administrator.
    """
    changes: dict[tuple[str, frozenset[str], frozenset[str], bool], list[str]] = defaultdict(list)
    for key in {**old, **new}:
        before, after = old.get(key, frozenset()), new.get(key, frozenset())
        if before != after:
            changes[key[0], before, after, key[1] == EVERYTHING].append(key[1])
    return [
        sentence
        for (name, before, after, is_hub), patterns in changes.items()
        for sentence in _describe_change(_name(name, groups), before, after, _list_patterns(patterns), is_hub)
    ]


def _describe_change(who: str, before: frozenset[str], after: frozenset[str], what: str, is_hub: bool) -> Iterable[str]:
    if ASK in before and CALL in after:
        yield f"{who} may call {what} without an approval"
    elif CALL in before and ASK in after:
        yield f"Calls of {what} by {_inside(who)} need an approval if the tool may destroy something"
    elif ASK in after - before:
        yield f"{who} may call {what}, with an approval if the tool may destroy something"
    calls = {CALL, ASK} if before & {CALL, ASK} and after & {CALL, ASK} else {ASK}
    gained = [each for each in _ORDER if each in after - before - calls]
    lost = [each for each in _ORDER if each in before - after - calls or (each == CALL and _is_lost_ask(before, after))]
    toolsets = f"{what} as a toolset"
    if OPERATE in gained:
        yield (
            f"{who} is an administrator of this hub from now on" if is_hub else f"{who} may make and change {toolsets}"
        )
    if OPERATE in lost:
        yield f"{who} is no administrator of this hub any more" if is_hub else f"{who} may no longer change {toolsets}"
    for verb, actions in (("may", gained), ("may no longer", lost)):
        if named := [each for each in actions if each != OPERATE]:
            yield f"{who} {verb} {_join_words(named, 'or' if 'no' in verb else 'and')} {what}"


def _is_lost_ask(before: frozenset[str], after: frozenset[str]) -> bool:
    return ASK in before and not after & {CALL, ASK}


def _describe_groups(old: Mapping[str, frozenset[str]], new: Mapping[str, frozenset[str]]) -> Iterable[str]:
    for name in {**old, **new}:
        before, after = old.get(name, frozenset()), new.get(name, frozenset())
        if name not in old:
            yield f"There is a new group {name}" + (f" with {_list_patterns(sorted(after))}" if after else "")
        elif name not in new:
            yield f"The group {name} is removed"
        else:
            if joined := sorted(after - before):
                yield f"{_list_patterns(joined)} {'joins' if len(joined) == 1 else 'join'} the group {name}"
            if gone := sorted(before - after):
                yield f"{_list_patterns(gone)} {'leaves' if len(gone) == 1 else 'leave'} the group {name}"


def _describe_denials(old: Grants, new: Grants) -> Iterable[str]:
    groups = {*old.groups, *new.groups}
    if max(_count_rights(old.denials), _count_rights(new.denials)) > MAX_RIGHTS:
        yield "The denials are too many to compare here: compare the texts"
        return
    before, after = (
        {(name, on): None for row in each.denials for name in row.to for on in row.on} for each in (old, new)
    )
    for word, rows in (
        ("forbidden", after.keys() - before.keys()),
        ("no longer forbidden", before.keys() - after.keys()),
    ):
        of_name: dict[str, list[str]] = defaultdict(list)
        for name, pattern in sorted(rows):
            of_name[name].append(pattern)
        for name, patterns in of_name.items():
            verb = "are" if len(patterns) > 1 else "is"
            yield f"{_list_patterns(patterns)} {verb} {word} for {_inside(_name(name, groups))}"


def _describe_quotas(old: Sequence[Quota], new: Sequence[Quota]) -> Iterable[str]:
    before, after = [_quota(row) for row in old], [_quota(row) for row in new]
    yield from (f"There is a new limit: {each}" for each in after if each not in before)
    yield from (f"A limit is removed: {each}" for each in before if each not in after)


def _quota(row: Quota) -> str:
    numbers = ", ".join(f"{name} {value:,}" for name, value in row.limits.items())
    to = f" for {_list_patterns(row.to)}" if row.to else " for all callers together"
    return numbers + to + (f" on {_list_patterns(row.on)}" if row.on else "")


def _name(name: str, groups: set[str]) -> str:
    """Return the name of a caller, a group or everyone, as the beginning of a sentence."""
    return "Everyone" if name == EVERYTHING else f"The group {name}" if name in groups else name


def _inside(who: str) -> str:
    """Return a name as it stands inside a sentence."""
    return who[0].lower() + who[1:] if who == "Everyone" or who.startswith("The group ") else who


def _list_patterns(patterns: Sequence[str]) -> str:
    named = ["everything" if each == EVERYTHING else each for each in patterns]
    rest = len(named) - MAX_NAMED
    return _join_words(named) if rest <= 0 else f"{', '.join(named[:MAX_NAMED])} and {rest} more"


def _join_words(words: Sequence[str], last: str = "and") -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}"
