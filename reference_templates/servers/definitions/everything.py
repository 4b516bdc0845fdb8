"""Everything an author can do, once each: results of every kind, reports, questions, long work, changes.

The official conformance suite calls these functions by these names; docs/ points here for examples. What
a signature cannot say (schemas in full, resources, prompts, completions) stands in the configuration.
"""

import json
import time
from base64 import b64decode

from patchbay import ProtocolError, Question

_PNG = b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==")
_WAV = b64decode("UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA=")

# Results: the caller gets the return value of the function.


def test_simple_text() -> str:
    """Return a text."""
    return "This is a simple text response for testing."


def test_image_content() -> bytes:
    """Return an image: bytes are known by how they begin."""
    return _PNG


def test_audio_content() -> bytes:
    """Return a sound."""
    return _WAV


def test_embedded_resource() -> dict:
    """Return a content block of MCP as it is: here a resource with its content."""
    return _embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")


def test_multiple_content_types() -> list:
    """Return several things at once: a text, an image and a resource."""
    value = json.dumps({"test": "data", "value": 123}, separators=(",", ":"))
    return [
        "Multiple content types test:",
        _PNG,
        _embedded("test://mixed-content-resource", "application/json", value),
    ]


def test_error_handling() -> str:
    """Fail: an exception becomes a result that says so."""
    raise RuntimeError("This tool intentionally returns an error for testing")


def json_schema_2020_12_tool(
    name: str = "", address: dict | None = None, contactMethod: str = "", phone: str = "", email: str = ""
) -> str:
    """Take arguments whose rules need a whole JSON Schema, which stands in the configuration."""
    return f"{name or 'Somebody'} can be reached by {phone or email}."


def test_x_mcp_header(region: str = "") -> str:
    """Take an argument that callers also send as the header Mcp-Param-Region, for routing."""
    return f"Routed to {region or 'any region'}."


# Reports: what a function says while it works.


def test_tool_with_progress(context) -> str:
    """Report progress in three steps."""
    for done in (0, 50, 100):
        context.progress(done, total=100)
        time.sleep(0.05)
    return "All steps are done."


def test_tool_with_logging(context) -> str:
    """Send three log lines."""
    context.log("Tool execution started")
    time.sleep(0.05)
    context.log("Tool processing data")
    time.sleep(0.05)
    context.log("Tool execution completed")
    return "Three lines were logged."


def test_logging_tool(context) -> str:
    """Send one log line, which reaches only callers that asked for logs."""
    context.log("A line for those who want it")
    return "One line was logged."


# Questions: the caller's model, the user, the caller's folders. A caller that cannot answer gets an error.


def test_sampling(prompt: str, context) -> str:
    """Ask the caller's language model.

    Args:
        prompt: What to ask.
    """
    return f"LLM response: {_said(context.sample(prompt, max_tokens=100))}"


def test_elicitation(message: str, context) -> str:
    """Ask the user for a name and an email address.

    Args:
        message: What to show the user.
    """
    form = _form(
        username={"type": "string", "description": "User's response"},
        email={"type": "string", "description": "User's email address"},
    )
    return f"User response: {_outcome(context.elicit(message, form))}"


def test_elicitation_sep1034_defaults(context) -> str:
    """Ask with a form that is filled in already."""
    form = _form(
        name={"type": "string", "default": "John Doe"},
        age={"type": "integer", "default": 30},
        score={"type": "number", "default": 95.5},
        status={"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        verified={"type": "boolean", "default": True},
    )
    return f"Elicitation completed: {_outcome(context.elicit('Please check these values', form))}"


def test_elicitation_sep1330_enums(context) -> str:
    """Ask with every kind of choice: one or many, with titles and without."""
    titled = [{"const": f"value{n}", "title": f"{word} Option"} for n, word in enumerate(_ORDINALS, 1)]
    choices = [{"const": f"value{n}", "title": f"{word} Choice"} for n, word in enumerate(_ORDINALS, 1)]
    options = ["option1", "option2", "option3"]
    form = _form(
        untitledSingle={"type": "string", "enum": options},
        titledSingle={"type": "string", "oneOf": titled},
        legacyEnum={
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        untitledMulti={"type": "array", "items": {"type": "string", "enum": options}},
        titledMulti={"type": "array", "items": {"anyOf": choices}},
    )
    return f"Elicitation completed: {_outcome(context.elicit('Please choose', form))}"


def test_missing_capability(context) -> str:
    """Need a caller with a language model."""
    return _said(context.sample("Say hello.", max_tokens=20))


def test_streaming_elicitation(context) -> str:
    """Report progress, then ask the user."""
    context.progress(1, total=2, message="About to ask")
    return _outcome(context.elicit("Shall this go on?", _form(ok={"type": "boolean"})))


# Questions with names: in the newest revision the call ends with its questions and is made again with the
# answers, so a function runs from its start each time. Ask first, act afterwards.


def test_input_required_result_elicitation(context) -> str:
    """Ask for a name, then greet."""
    answer = context.elicit("What is your name?", _NAME, key="user_name")
    return f"Hello, {_field(answer, 'name')}!"


def test_input_required_result_sampling(context) -> str:
    """Ask the caller's language model something that it knows."""
    return _said(context.sample("What is the capital of France?", max_tokens=100, key="capital_question"))


def test_input_required_result_list_roots(context) -> str:
    """Ask for the folders that the caller works in."""
    return f"Roots: {', '.join(root['uri'] for root in context.roots(key='client_roots'))}"


def test_input_required_result_request_state(context) -> str:
    """Ask for a confirmation, and know the call again when the answer comes."""
    context.elicit("Please confirm", _CONFIRMED, key="confirm")
    return "state-ok"


def test_input_required_result_multiple_inputs(context) -> str:
    """Ask three things at once: the user, the model and for folders."""
    answers = context.ask(
        {
            "user_name": _ask_user("What is your name?", _NAME),
            "greeting": _ask_model("Write a greeting.", 50),
            "client_roots": Question("roots/list", {}),
        }
    )
    roots = len(answers["client_roots"]["roots"])
    return f"{_field(answers['user_name'], 'name')}, {_said(answers['greeting'])} You have {roots} roots."


def test_input_required_result_multi_round(context) -> str:
    """Ask one thing after the other."""
    name = _field(context.elicit("What is your name?", _NAME, key="step1"), "name")
    colour = _form(color={"type": "string"})
    liked = _field(context.elicit(f"What is your favourite colour, {name}?", colour, key="step2"), "color")
    return f"{name} likes {liked}."


def test_input_required_result_tampered_state(context) -> str:
    """Ask for a confirmation; what travels with the question is sealed."""
    context.elicit("Please confirm", _CONFIRMED, key="confirm")
    return "Confirmed."


def test_input_required_result_capabilities(context) -> str:
    """Ask only what this caller can answer."""
    possible = {
        "elicitation": _ask_user("What is your name?", _NAME),
        "sampling": _ask_model("Write a greeting.", 50),
        "roots": Question("roots/list", {}),
    }
    answers = context.ask({kind: question for kind, question in possible.items() if kind in context.capabilities})
    return f"Answered: {', '.join(answers) or 'nothing, for nothing could be asked'}."


# Long work: after `context.background()` a caller that knows how may hang up and fetch the result later. To the
# function that makes no difference. Where the work makes no sense without it, it is required.


def greet(name: str) -> str:
    """Greet someone, which takes no time.

    Args:
        name: Whom to greet.
    """
    return f"Hello, {name}!"


def slow_compute(seconds: float, label: str, context) -> str:
    """Work for some time, unless the caller cancels it.

    Args:
        seconds: How long to work.
        label: What to call the work.
    """
    context.background()
    end = time.monotonic() + seconds
    while time.monotonic() < end and not context.cancelled:
        time.sleep(0.05)
    return f"{label} took {seconds:g} seconds."


def failing_job(context) -> str:
    """Fail in the background: the result says so."""
    context.background(required=True)
    raise RuntimeError("This job intentionally fails")


def protocol_error_job(context) -> str:
    """Fail in the background with an error of the protocol in place of a result."""
    context.background(required=True)
    raise ProtocolError("This job intentionally ends in a protocol error")


def confirm_delete(filename: str, context) -> str:
    """Ask the user before something is done, while the caller is not waiting.

    Args:
        filename: What to delete. Nothing really is.
    """
    context.background(required=True)
    answer = context.elicit(f"Delete {filename}?", _form(confirm={"type": "boolean"}), key="confirm")
    confirmed = answer.get("content", {}).get("confirm") is True
    return f"{filename} {'was deleted' if confirmed else 'was kept'}."


def multi_input(context) -> str:
    """Ask two things at once; the answers may come one by one."""
    context.background(required=True)
    place = _form(place={"type": "string"})
    answers = context.ask({"name": _ask_user("What is your name?", _NAME), "place": _ask_user("Where to?", place)})
    return f"{_field(answers['name'], 'name')} goes to {_field(answers['place'], 'place')}."


def test_tool_with_task(context) -> str:
    """Ask first, then go on in the background."""
    name = _field(context.elicit("What is your name?", _NAME, key="user_name"), "name")
    context.background(required=True)
    return f"Hello, {name}! This was done in the background."


def test_reconnection(context) -> str:
    """Let the caller hang up; it finds the result where it comes back to."""
    context.background()
    time.sleep(0.2)
    return "The work went on while nobody listened."


# Changes: what a server lists may depend on what it remembers; see the transforms in its configuration.


def test_trigger_tool_change(context) -> str:
    """Add a tool to this server, or take it away again; listeners hear of it."""
    return _toggle(context, "tools", "test_extra_tool")


def test_trigger_prompt_change(context) -> str:
    """Add a prompt to this server, or take it away again; listeners hear of it."""
    return _toggle(context, "prompts", "test_extra_prompt")


# Private functions are no tools. Some serve resources, templates and prompts of the configuration.


def _extra_tool() -> str:
    return "This tool comes and goes."


def _template_data(id: str) -> str:
    return json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})


def _asking_prompt(context) -> str:
    form = _form(context={"type": "string", "description": "What you are working on"})
    answer = context.elicit("What should the prompt know?", form, key="user_context")
    return f"Use this context: {_field(answer, 'context')}"


def _toggle(context, kind: str, name: str) -> str:
    listed = not context.state.get(name, False)
    context.state[name] = listed
    context.changed(kind)
    return f"{name} is {'listed' if listed else 'gone'}."


def _embedded(uri: str, media_type: str, text: str) -> dict:
    return {"type": "resource", "resource": {"uri": uri, "mimeType": media_type, "text": text}}


def _form(**properties: dict) -> dict:
    return {"type": "object", "properties": properties, "required": list(properties)}


def _ask_user(message: str, form: dict) -> Question:
    return Question("elicitation/create", {"message": message, "requestedSchema": form})


def _ask_model(text: str, most: int) -> Question:
    messages = [{"role": "user", "content": {"type": "text", "text": text}}]
    return Question("sampling/createMessage", {"messages": messages, "maxTokens": most})


def _field(answer: dict, name: str) -> str:
    """One field of a form; what stands in its place when the user would not say."""
    return str(answer.get("content", {}).get(name, f"({answer['action']})"))


def _outcome(answer: dict) -> str:
    return f"action={answer['action']}, content={json.dumps(answer.get('content', {}))}"


def _said(answer: dict) -> str:
    """The text of a model's answer, which is one content block or a list of them."""
    content = answer["content"]
    blocks = content if isinstance(content, list) else [content]
    return "".join(block.get("text", "") for block in blocks)


_NAME = _form(name={"type": "string"})
_CONFIRMED = _form(ok={"type": "boolean"})
_ORDINALS = ("First", "Second", "Third")
