"""The methods of a function's context."""

from __future__ import annotations

from typing import Any

import pytest

from patchbay.activation import activate
from patchbay.errors import MissingCapability
from patchbay.events import Ask, Data, Done, Event, Failed, Log, Pause, Progress, Question, Text, ToolUse
from tests.kinds.calls import SmallHub, call_of, events, next_event, python
from tests.kinds.python.test_inline import runners
from tests.waiting import until

ALL: dict[str, Any] = {"elicitation": {}, "sampling": {}, "roots": {}}
NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


def answered(source: str, answers: dict[str, Any], **more: Any) -> list[Event]:
    """Return all events, with every question answered from one map."""
    running = activate(python(source), call_of(**more))
    seen: list[Event] = []
    try:
        event = next(running)
        while True:
            seen.append(event)
            event = (
                running.send({key: answers[key] for key in event.questions})
                if isinstance(event, Ask)
                else next(running)
            )
    except StopIteration:
        return [event for event in seen if event != Pause()]


def test_progress_and_log_lines_go_out_in_order() -> None:
    source = """
    def main(context):
        context.progress(1, 3, "begun")
        context.log("careful", level="warning", logger="own")
        context.log({"n": 1})
        context.progress(2.5)
        return "x"
    """
    assert events(python(source), call_of()) == [
        Progress(1, 3, "begun"),
        Log("warning", "careful", "own"),
        Log("info", {"n": 1}),
        Progress(2.5),
        Text("x"),
        Done(),
    ]


def test_an_unknown_log_level_is_refused() -> None:
    (failed,) = events(python("def main(context): context.log('x', level='loud')"), call_of())
    assert isinstance(failed, Failed)
    assert failed.message.startswith("no log level 'loud'; expected one of debug, info")


def test_a_log_line_with_an_integer_beyond_64_bits_is_exact() -> None:
    found = events(python("def main(context): context.log(2**70)"), call_of())
    assert found == [Log("info", 2**70), Done()]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("float('nan')", "progress must be a finite number; not nan"),
        ("1, float('inf')", "total must be a finite number; not inf"),
        ("'half'", "progress must be a finite number; not 'half'"),
        ("None", "progress must be a finite number; not None"),
        ("1, 10**400", f"total must be a finite number; not 1{'0' * 79}"),
        ("1, 2, 5", "message must be a string; not 5"),
    ],
)
def test_progress_that_is_not_a_finite_number_is_refused(given: str, sentence: str) -> None:
    assert events(python(f"def main(context): context.progress({given})"), call_of()) == [Failed(sentence)]


def test_the_words_of_a_report_are_texts_that_can_be_sent() -> None:
    words = "'caf\\udce9'"
    body = (
        f"context.progress(1, 2, {words}); context.log({words}, logger={words}); context.uses({words}, None, {words})"
    )
    text = "caf\ufffd"
    expected = [Progress(1, 2, text), Log("info", text, text), ToolUse(text, None, text), Done()]
    assert events(python(f"def main(context): {body}"), call_of()) == expected
    (failed,) = events(python("def main(context): context.log('x', logger=5)"), call_of())
    assert failed == Failed("logger must be a string; not 5")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"name": 5}, "'ask-1' does not fit its form: name: 5 is not of type \"string\""),
        ({}, '"name" is a required property'),
        (None, '"name" is a required property'),
    ],
)
def test_an_accepted_form_has_to_fit_its_schema(content: Any, words: str) -> None:
    """MCP, client/elicitation: the content is checked against the requested schema."""
    answer = {"action": "accept"} | ({} if content is None else {"content": content})
    source = f"def main(context): return context.elicit('Who?', {NAME!r})"
    *_, last = answered(source, {"ask-1": answer}, capabilities=ALL)
    assert isinstance(last, Failed) and words in last.message


def test_a_declined_form_needs_no_content() -> None:
    source = f"def main(context): return context.elicit('Who?', {NAME!r})['action']"
    assert answered(source, {"ask-1": {"action": "decline"}}, capabilities=ALL)[1:] == [Text("decline"), Done()]


def test_a_form_that_is_not_a_schema_or_refers_elsewhere_is_never_shown() -> None:
    for schema in ({"type": 5}, {"$ref": "https://example.org/schema"}, {"type": object}):
        source = f"def main(context): return context.elicit('Who?', {schema!r})".replace("<class 'object'>", "object")
        (failed,) = answered(source, {}, capabilities=ALL)
        assert isinstance(failed, Failed)
        assert failed.message.startswith("the form of a question has an invalid schema")


@pytest.mark.parametrize("kind", ["def", "async def"])
def test_a_question_goes_out_and_its_answer_comes_back(kind: str) -> None:
    source = f"""
    NAME = {NAME!r}
    {kind} main(context):
        answer = context.elicit("What is your name?", NAME)
        return "Hello, " + answer["content"]["name"]
    """
    question = Question("elicitation/create", {"message": "What is your name?", "requestedSchema": NAME})
    answers = {"ask-1": {"action": "accept", "content": {"name": "Ada"}}}
    seen = answered(source, answers, capabilities=ALL)
    assert seen == [Ask({"ask-1": question}), Text("Hello, Ada"), Done()]


def test_questions_are_numbered_in_order_unless_they_are_named() -> None:
    source = """
    def main(context):
        context.elicit("a", {})
        context.sample("b", key="own")
        return context.roots()
    """
    answers = {"ask-1": {"action": "decline"}, "own": {"role": "assistant"}, "ask-3": {"roots": [{"uri": "file:///a"}]}}
    seen = answered(source, answers, capabilities=ALL)
    assert [list(event.questions) for event in seen if isinstance(event, Ask)] == [["ask-1"], ["own"], ["ask-3"]]
    assert seen[-2:] == [Data([{"uri": "file:///a"}]), Done()]


def test_a_sampling_request_has_the_members_of_mcp() -> None:
    source = """
    def main(context):
        return context.sample("Capital of France?", max_tokens=100, system_prompt="Be brief", temperature=0.5)
    """
    seen = answered(source, {"ask-1": {"role": "assistant", "model": "m"}}, capabilities=ALL)
    message = {"role": "user", "content": {"type": "text", "text": "Capital of France?"}}
    params = {"messages": [message], "maxTokens": 100, "systemPrompt": "Be brief", "temperature": 0.5}
    assert seen[0] == Ask({"ask-1": Question("sampling/createMessage", params)})
    assert seen[1] == Data({"role": "assistant", "model": "m"})


def test_several_questions_can_be_asked_at_once() -> None:
    source = """
    from patchbay.events import Question
    def main(context):
        return context.ask({"a": Question("roots/list", {}), "b": Question("roots/list", {})})
    """
    seen = answered(source, {"a": {"roots": []}, "b": {"roots": [1]}}, capabilities=ALL)
    assert seen[1] == Data({"a": {"roots": []}, "b": {"roots": [1]}})


@pytest.mark.parametrize(
    ("question", "capability"),
    [("elicit('x', {})", "elicitation"), ("sample('x')", "sampling"), ("roots()", "roots")],
)
def test_nothing_is_sent_to_a_caller_that_cannot_answer(question: str, capability: str) -> None:
    others: dict[str, Any] = {name: {} for name in ALL if name != capability}
    (failed,) = events(python(f"def main(context): context.{question}"), call_of(capabilities=others))
    assert isinstance(failed, Failed)
    assert isinstance(failed.error, MissingCapability)
    assert failed.error.required == {capability: {}}


@pytest.mark.parametrize("answer", [None, {}, {"ask-1": 12345}, "yes"])
def test_a_question_without_a_proper_answer_fails_the_call(answer: Any) -> None:
    running = activate(python("def main(context): return context.elicit('x', {})"), call_of(capabilities=ALL))
    assert isinstance(next_event(running), Ask)
    rest = [running.send(answer) if answer is not None else next(running), *running]
    assert rest == [Failed("the caller did not answer 'ask-1'")]


def test_an_unknown_question_is_refused() -> None:
    source = """
    from patchbay.events import Question
    def main(context): context.ask({"a": Question("tools/list", {})})
    """
    (failed,) = events(python(source), call_of(capabilities=ALL))
    assert isinstance(failed, Failed)
    assert failed.message.startswith("'tools/list' is not a question")


def test_closing_while_a_question_is_open_ends_the_function() -> None:
    before = set(runners())
    running = activate(python("def main(context): context.elicit('y', {})"), call_of(capabilities=ALL))
    assert isinstance(next_event(running), Ask)
    running.close()
    until(lambda: set(runners()) <= before)


def test_a_question_that_is_not_fetched_does_not_block_the_thread() -> None:
    before = set(runners())
    source = "def main(context):\n    context.progress(1)\n    context.elicit('z', {})"
    running = activate(python(source), call_of(capabilities=ALL))
    assert next_event(running) == Progress(1)
    running.close()
    until(lambda: set(runners()) <= before)


def test_state_is_the_servers_own_and_lasts() -> None:
    hub = SmallHub()
    source = "def main(context):\n    context.state['n'] = context.state.get('n', 0) + 1\n    return context.state['n']"
    assert events(python(source), call_of(hub=hub))[0] == Data(1)
    assert events(python(source), call_of(hub=hub))[0] == Data(2)
    assert hub.states == {"tool": {"n": 2}}


def test_resources_are_read_and_changes_announced_through_the_hub() -> None:
    hub = SmallHub(resources={"cid://a": {"uri": "cid://a", "mimeType": "text/plain", "text": "content"}})
    source = """
    def main(context):
        context.changed("tools")
        context.updated("test://a")
        return context.read("cid://a")["text"]
    """
    assert events(python(source), call_of(hub=hub)) == [Text("content"), Done()]
    assert hub.announced == [("changed", "tool", "tools"), ("updated", "tool", "test://a")]


def test_another_tool_is_called_and_its_use_is_an_event() -> None:
    hub = SmallHub(servers={"other": python("def add(server, b): return server + b")})
    source = "def main(context): return context.call('other', 'add', server=1, b=2)['structuredContent']"
    assert events(python(source), call_of(hub=hub)) == [
        ToolUse("other.add", {"server": 1, "b": 2}),
        Data(3),
        Done(),
    ]


def test_a_call_within_a_call_is_stopped_together_with_it() -> None:
    before = set(runners())
    hub = SmallHub(servers={"other": python("def forever():\n    while True: sum(range(9))")})
    source = "def main(context): return context.call('other', 'forever')"
    running = activate(python(source), call_of(hub=hub))
    assert next_event(running) == ToolUse("other.forever", {})
    assert next(running) == Pause()
    running.close()
    until(lambda: set(runners()) <= before)


@pytest.mark.parametrize(
    "use", ["state", "read('cid://a')", "call('a', 'b')", "changed('tools')", "updated('test://a')"]
)
def test_a_method_that_needs_a_hub_fails_with_a_sentence_without_one(use: str) -> None:
    (failed,) = events(python(f"def main(context): context.{use}"), call_of())
    assert isinstance(failed, Failed)
    assert failed.message.endswith("needs a hub, and this call runs without one")


def test_only_lists_that_exist_can_change() -> None:
    (failed,) = events(python("def main(context): context.changed('servers')"), call_of(hub=SmallHub()))
    assert failed == Failed("'servers' cannot change; expected one of tools, resources, prompts")


def test_the_call_itself_can_be_looked_at() -> None:
    source = """
    def main(context):
        return [context.server, context.meta, context.capabilities, context.cancelled, 0 < context.left() < 30]
    """
    found = events(python(source), call_of(meta={"a": 1}, capabilities={"roots": {}}))
    assert found[0] == Data(["tool", {"a": 1}, {"roots": {}}, False, True])


def test_a_function_can_see_that_it_is_cancelled_and_end_by_itself() -> None:
    source = """
    def main(context):
        yield "begun"
        while not context.cancelled:
            pass
        done.append(1)
    done = []
    def count(): return len(done)
    """
    handler, call = python(source), call_of()
    running = activate(handler, call)
    assert next_event(running) == Text("begun")
    call.cancelled.set()
    until(lambda: events(handler, call_of(target={"function": "count"}))[0] == Data(1))
    running.close()
