"""The questions of tools that the caller of a run answers on the page of the run: what is shown, and what was sent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from patchbay.errors import InvalidParams
from patchbay.web.scripts.answer_forms import AnswerField, list_fields, read_fields

if TYPE_CHECKING:
    from patchbay.scripting.suspended.tool_questions import OpenQuestion

ACCEPT, DECLINE, CANCEL = "accept", "decline", "cancel"
"""The actions of an answer. Source: MCP specification, client/elicitation."""


@dataclass(frozen=True, slots=True)
class Draft:
    """An answer that was sent: its `value`, or what is wrong with it and its fields as they were typed."""

    value: Mapping[str, Any]
    fields: list[AnswerField]
    problem: str = ""

    @property
    def is_wrong(self) -> bool:
        """Whether the answer does not fit its question."""
        return bool(self.problem) or any(one.problem for one in self.fields)

    def describe(self) -> str:
        """Return all problems as one sentence."""
        found = [f"{one.key}: {one.problem}" for one in self.fields if one.problem]
        return "; ".join([*found, *([self.problem] if self.problem else [])])


def describe_question(key: str, question: OpenQuestion, until: float) -> dict[str, Any]:
    """Return a question as the JSON of the page has it, with the `key` that its answer names.

    `schema` is that of the answer, None for a question that asks to open the `url`; it waits `until` a Unix time.
    """
    params, url = question.params, _find_url(question)
    return {
        "key": key,
        "name": question.call.title,
        "line": question.call.line,
        "message": str(params.get("message", "")),
        "schema": None if url is not None else _find_schema(question),
        "url": url,
        "until": until,
    }


def show_question(row: Mapping[str, Any], draft: Draft | None) -> dict[str, Any]:
    """Return a row of `describe_question` with the fields of its form: those of a wrong answer, or empty ones.

    `is_link` says that a browser may open the URL.
    """
    fields = list_fields(row["schema"], _prefix(row["key"])) if row["schema"] is not None else []
    is_link = str(row["url"]).startswith(("https://", "http://"))
    shown = {"fields": fields, "problem": ""} if draft is None else {"fields": draft.fields, "problem": draft.problem}
    return {**row, **shown, "is_link": is_link}


def read_answer(key: str, question: OpenQuestion, given: Mapping[str, str]) -> Draft:
    """Read the answer to a question from the fields of a sent form. Raises InvalidParams for an unknown action."""
    action = given.get("action", "")
    if action not in (ACCEPT, DECLINE, CANCEL):
        raise InvalidParams(f"action must be {ACCEPT}, {DECLINE} or {CANCEL}; it is {action!r:.60}")
    if action != ACCEPT or _find_url(question) is not None:
        return Draft({"action": action}, [])
    content, fields, problem = read_fields(_find_schema(question), _prefix(key), given)
    return Draft({"action": ACCEPT, "content": content}, fields, problem)


def _find_url(question: OpenQuestion) -> str | None:
    params = question.params
    return str(params.get("url", "")) if params.get("mode") == "url" else None


def _find_schema(question: OpenQuestion) -> Mapping[str, Any]:
    schema = question.params.get("requestedSchema")
    return schema if isinstance(schema, Mapping) else {}


def _prefix(key: str) -> str:
    """Return how the names of the fields of a question begin: with its number among those of the run."""
    return f"answer.{key.rpartition('.')[2]}"
