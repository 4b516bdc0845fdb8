"""Find the sentences of a changed descriptor that address a model and that the approved one does not have.

A hostile server hides instructions in descriptions, in schemas, or in characters that people do not see. The search
reads the text as a model does: without invisible characters, with Unicode tags as letters. It marks a change for a
person; it decides nothing.
Sources: OWASP MCP Top 10 (2025), MCP03 tool poisoning; Unicode Technical Report 36; Unicode block Tags (U+E0000).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from patchbay.views.hidden_characters import HIDDEN

MAX_FINDINGS = 50
"""Maximum number of marked sentences of one change."""

MAX_SENTENCE_CHARACTERS = 500
"""Maximum characters of a sentence that is shown."""

MAX_SEARCHED_CHARACTERS = 256 * 1024
"""Characters of one text that are searched; a description has at most 32 KiB."""

TAGS = range(0xE0020, 0xE007F)
"""Unicode tags: invisible characters, each with the meaning of one ASCII character."""

_SENTENCES = re.compile(r"(?<=[.!?:;])\s+|[\r\n]+")
_PATTERNS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (reason, re.compile(pattern, re.IGNORECASE | re.VERBOSE))
    for reason, pattern in (
        (
            "overrides other instructions",
            r"""\b(ignore|disregard|forget|override|bypass)\b .{0,60}
                \b(instruction|prompt|rule|previous|prior|above|polic|guideline)""",
        ),
        (
            "asks to conceal something",
            r"""\b(do\ not|don't|never|without)\b .{0,40}
                \b(tell|mention|inform|show|reveal|notify|disclos|ask)(ing)?\b""",
        ),
        ("asks for secrecy", r"\b(secretly|silently|covertly|in\ the\ background|hidden\ from\ the\ user)\b"),
        (
            "orders a step around a call",
            r"""\b(before|after|prior\ to|when|whenever|each\ time|every\ time)\b .{0,40}
                \b(use|using|call|calling|invoke|invoking|run|running|answer|answering|respond|responding)\b""",
        ),
        (
            "gives an order",
            r"""\b(you|the\ (assistant|model|agent|llm|ai))\b .{0,20}
                \b(must|should|shall|have\ to|need\ to|always|never)\b
                | ^\W*(always|never|must|make\ sure|important|attention)\b""",
        ),
        (
            "addresses the model",
            r"\b(system\ prompt|as\ an\ ai|(dear|note\ to)\ (the\ )?(assistant|model|agent))\b",
        ),
        (
            "has markup that models read as a frame",
            r"<\s*/?\s*(important|system|instructions?|secret|assistant|hidden|admin)\b | \[\s*(system|inst)\b",
        ),
        (
            "names secrets or private files",
            r"""\.ssh | id_rsa | \.env\b | /etc/passwd | \.aws | mcp\.json
                | \b(api[\ _-]?keys?|passwords?|credentials?|private\ keys?|access\ tokens?)\b""",
        ),
        (
            "sends data elsewhere",
            r"""\b(send|forward|upload|post|bcc|copy|exfiltrat\w*|transmit|append)\b .{0,60}
                (https?:// | @ | \b(to|into|contents?|conversation|history)\b)""",
        ),
        (
            "replaces another tool",
            r"\b(instead\ of|rather\ than|in\ place\ of|supersedes?|replaces?|deprecated)\b .{0,60} \btool",
        ),
    )
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One sentence for a model: its place in the descriptor, its text, and what it does."""

    place: str
    sentence: str
    reason: str


def find_model_instructions(old: Any, new: Any) -> list[Finding]:
    """Return the sentences of `new` that address a model and that stand nowhere in `old`. Both are JSON values."""
    known = {_normalize(sentence) for _, text in iterate_texts(old) for sentence in split_sentences(text)}
    found: list[Finding] = []
    for place, text in iterate_texts(new):
        for sentence in split_sentences(text):
            plain = _normalize(sentence)
            if plain in known:
                continue
            reasons = [reason for reason, pattern in _PATTERNS if pattern.search(plain)]
            hidden = reveal_tags(sentence)
            if hidden:
                reasons.insert(0, f"says in invisible characters: {hidden[:MAX_SENTENCE_CHARACTERS]}")
            if reasons and len(found) < MAX_FINDINGS:
                reason = ", ".join(dict.fromkeys(reasons))
                found.append(Finding(place, sentence[:MAX_SENTENCE_CHARACTERS], reason))
    return found


def iterate_texts(value: Any, place: str = "") -> Iterator[tuple[str, str]]:
    """Yield every text of a JSON value with its place, names of members too; `value` nests boundedly."""
    if isinstance(value, str):
        yield place or "text", value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            below = f"{place}.{key}" if place else str(key)
            if HIDDEN.search(str(key)) or " " in str(key):
                yield f"{place or 'name'} (name of a member)", str(key)
            yield from iterate_texts(inner, below)
    elif isinstance(value, (list, tuple)):
        for number, inner in enumerate(value):
            yield from iterate_texts(inner, f"{place}[{number}]")


def split_sentences(text: str) -> list[str]:
    """Return the sentences of a text, without empty ones."""
    return [one.strip() for one in _SENTENCES.split(text[:MAX_SEARCHED_CHARACTERS]) if one and one.strip()]


def reveal_tags(text: str) -> str:
    """Return the ASCII text that the Unicode tags in a text spell."""
    return "".join(chr(ord(one) - 0xE0000) for one in text if ord(one) in TAGS)


def _normalize(text: str) -> str:
    """Return a text as a model reads it: tags as letters, no invisible characters, compatible letters as one."""
    spelled = "".join(chr(ord(one) - 0xE0000) if ord(one) in TAGS else one for one in text)
    seen = HIDDEN.sub(lambda match: "" if match[1] else match[0], spelled)
    return " ".join(unicodedata.normalize("NFKC", seen).split())
