"""What a server asks while it works: answered by the person at the terminal, by flags, or refused with a sentence."""

from __future__ import annotations

import json
import shlex
import socket
from typing import Any

import pytest

from patchbay import exit_codes
from tests.cli.workspace import Workspace

pytestmark = pytest.mark.process

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Your name", "minLength": 2},
        "age": {"type": "integer", "minimum": 0},
        "color": {"type": "string", "enum": ["red", "blue"], "default": "red"},
        "note": {"type": "string"},
    },
    "required": ["name", "age"],
}


def line(workspace: Workspace, method: str, params: Any, flags: str = "") -> str:
    """The command that has the server ask this."""
    arguments = shlex.quote(json.dumps({"method": method, "params": params}))
    return f"jn call --era legacy {flags} '{workspace.serve({'name': 'ask'})}' ask --args {arguments}"


def asked(workspace: Workspace, flags: str = "", schema: Any = SCHEMA, **params: Any) -> tuple[Any, str]:
    """The answer to the server and the text on standard error, without a terminal."""
    ended = workspace.quick(
        line(workspace, "elicitation/create", {"message": "Who?", "requestedSchema": schema, **params}, flags)
    )
    assert ended.code == exit_codes.OK, ended.err
    return json.loads(ended.records[0]["text"]), ended.err


def test_a_person_answers_on_the_terminal(workspace: Workspace) -> None:
    """JN-71: field by field, with what is expected; a wrong value is asked for again, an empty line is the default."""
    answers = [
        ("name (required) [Your name]:", "x\n"),
        ("expected another value", "Ada\n"),
        ("age (required):", "old\n"),
        ("expected another value", "36\n"),
        ("color [one of red, blue; default", "\n"),
        ("note:", "\n"),
    ]
    params = {"message": "Who are you?", "requestedSchema": SCHEMA}
    ended = workspace.on_terminal(line(workspace, "elicitation/create", params, "--json"), answers)
    assert "The server asks: Who are you?" in ended.out
    assert json.dumps({"action": "accept", "content": {"name": "Ada", "age": 36, "color": "red"}})[
        1:-1
    ] in ended.out.replace("\\", "")


def test_the_end_of_input_cancels(workspace: Workspace) -> None:
    params = {"message": "Who?", "requestedSchema": SCHEMA}
    ended = workspace.on_terminal(
        line(workspace, "elicitation/create", params, "--json"), [("name (required)", "\x04")]
    )
    assert '"action": "cancel"' in ended.out.replace("\\", "")


def test_flags_answer_where_there_is_no_terminal(workspace: Workspace) -> None:
    """Values get the types of the schema, defaults are filled in."""
    answer, err = asked(workspace, "--answer name=Ada --answer age=36")
    assert (answer, err) == ({"action": "accept", "content": {"color": "red", "name": "Ada", "age": 36}}, "")


@pytest.mark.parametrize(
    ("flags", "action", "sentence"),
    [
        ("", "cancel", "--answer name=... --answer age=..., or --decline"),
        ("--answer name=Ada", "cancel", "--answer age=..."),
        ("--answer name=Ada --answer age=old", "cancel", "--answer age=: expected another value"),
        ("--decline", "decline", "Declined."),
    ],
)
def test_without_an_answer_the_sentence_says_how_to_give_one(
    workspace: Workspace, flags: str, action: str, sentence: str
) -> None:
    answer, err = asked(workspace, flags)
    assert answer == {"action": action}
    assert sentence in err


def test_a_place_to_visit_is_never_opened_by_itself(workspace: Workspace) -> None:
    """The URL mode: the URL is shown, and the question is cancelled without a terminal."""
    answer, err = asked(workspace, mode="url", url="https://example.org/sign", elicitationId="1", schema={})
    assert answer == {"action": "cancel"}
    assert "https://example.org/sign" in err


def test_a_question_that_refers_elsewhere_fetches_nothing(workspace: Workspace) -> None:
    """THREATS 1.7: a server's schema may not send its client anywhere."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/secret"
        schema = {"type": "object", "properties": {"name": {"$ref": url}}}
        assert asked(workspace, "--answer name=Ada", schema)[0]["content"] == {"name": "Ada"}
        with pytest.raises(BlockingIOError):
            listening.accept()


@pytest.mark.parametrize(
    "schema", [1, [1], {"properties": [1]}, {"properties": {"a": True}}, {"properties": {"a": {"enum": 5}}}]
)
def test_a_question_in_no_form_that_can_be_read_is_refused(workspace: Workspace, schema: Any) -> None:
    answer, said = asked(workspace, "--answer a=1", schema)
    assert answer["code"] == -32602
    assert "requestedSchema" in answer["message"] and "Who?" in said


def test_sampling_is_refused_unless_a_flag_answers(workspace: Workspace) -> None:
    """JN-71: the refusal is an error for the server and a sentence for the person."""
    content = {"type": "text", "text": "The capital of France?"}
    params = {"messages": [{"role": "user", "content": content}], "maxTokens": 9}
    refused = workspace.quick(line(workspace, "sampling/createMessage", params))
    assert json.loads(refused.records[0]["text"])["code"] == -1
    assert 'The server asks for the answer of a model (sampling): "The capital of France?"' in refused.err
    assert "--sample TEXT" in refused.err
    answered = workspace.quick(line(workspace, "sampling/createMessage", params, "--sample Paris"))
    assert json.loads(answered.records[0]["text"])["content"] == {"type": "text", "text": "Paris"}


def test_directories_are_named_to_the_server_when_some_are_given(workspace: Workspace) -> None:
    answered = workspace.quick(line(workspace, "roots/list", {}, "--root ."))
    assert json.loads(answered.records[0]["text"])["roots"][0]["uri"] == workspace.work.as_uri()
