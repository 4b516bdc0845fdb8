"""Cone: conversations with a language model, kept as trees by the server `arbor`.

A cone is a name, a model and a place in a tree of its own: its head. A chat sends what leads from the root to the head,
and the new question, to the model. Only when the answer is complete are the question and the answer added below the
head, and the head moved on; a chat that fails, or is ephemeral, leaves the tree as it was. Two chats at once branch:
the head is then the end of the one that ended last, and `set_head` goes back to the other.

The model is behind an HTTP endpoint: CONE_URL is its base address (such as http://127.0.0.1:11434/v1), CONE_API what it
speaks (`openai`: chat completions; `anthropic`: the Anthropic Messages API; without it the address decides), CONE_KEY
its key, CONE_MODELS the models that may be used (separated by commas; without it the endpoint is asked).
Without CONE_URL the caller's own model is asked, where the caller offers sampling.
"""

import json
import os
import re
import time
from collections.abc import Callable, Iterator
from http.client import HTTPException, HTTPResponse
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener
from uuid import UUID, uuid4

from patchbay import Data, ToolFailed

NAME = re.compile(r"[A-Za-z0-9_.-]{1,100}")
OWNER = "cone"
SILENCE = 120.0
"""Seconds that the endpoint may stay silent."""

LINE = 1024 * 1024
"""Bytes of one line of the endpoint's stream."""

FAULT = 64 * 1024
"""Bytes of an error answer that are read."""

SAMPLED = 4096
"""Tokens that the caller's model may answer."""

ANSWER_TOKENS = 8192
"""Tokens of one answer of the Anthropic Messages API, which has to be told."""

ANTHROPIC_VERSION = "2023-06-01"
APIS = ("openai", "anthropic")


def create(
    name: str,
    model_id: str,
    system_prompt: str | None = None,
    metadata: dict[str, Any] | None = None,
    context=None,
) -> dict:
    """Create a cone: a conversation that has not begun. With a system prompt it is also the prompt `cone:<name>`.

    Args:
        name: What to call it: up to 100 letters, digits, dots, dashes or underscores.
        model_id: Which model answers; `registry` lists them.
        system_prompt: The system prompt of the model.
        metadata: What to remember of it.
    """
    if not NAME.fullmatch(name) or _is_uuid(name):
        raise ToolFailed(f"name: expected 1 to 100 letters, digits, dots, dashes or underscores, got {name!r:.120}")
    allowed = _allowed() or _listed(context)
    if allowed and model_id not in allowed:
        raise ToolFailed(f"model_id: expected one of {', '.join(allowed)}; got {model_id!r:.120}")
    _check_free(context, name)
    tree = _arbor(context, "tree_create", metadata={"cone": name}, owner_id=OWNER)
    now = time.time()
    cone = {
        "id": str(uuid4()),
        "name": name,
        "model_id": model_id,
        "system_prompt": system_prompt,
        "metadata": metadata,
        "head": {"tree_id": tree["tree_id"], "node_id": tree["root"]},
        "created_at": now,
        "updated_at": now,
    }
    if not context.state.swap({f"cone/{cone['id']}": cone, f"name/{name}": cone["id"]}, {f"name/{name}": None}):
        _arbor(context, "tree_release", tree_id=tree["tree_id"], owner_id=OWNER)
        raise _taken(name)  # also when the other cone was deleted again
    if system_prompt:
        context.changed("prompts")
    return {"type": "cone_created", "cone_id": cone["id"], "name": name, "head": cone["head"]}


def get(identifier: str, context=None) -> dict:
    """Show a cone.

    Args:
        identifier: Its name or its UUID.
    """
    return {"type": "cone_data", "cone": _cone(context, identifier)}


def list(context=None) -> dict:
    """List the cones, oldest first."""
    cones = context.state.several(context.state.starting("cone/")).values()
    return {"type": "cone_list", "cones": sorted(cones, key=lambda cone: cone["created_at"])}


def delete(identifier: str, context=None) -> dict:
    """Delete a cone and let go of its tree, which arbor keeps for a week.

    Args:
        identifier: Its name or its UUID.
    """
    cone = _cone(context, identifier)
    keys = (f"cone/{cone['id']}", f"name/{cone['name']}")
    if not context.state.swap(dict.fromkeys(keys), {keys[1]: cone["id"]}):
        raise ToolFailed(_unknown(context, identifier))
    if cone["system_prompt"]:
        context.changed("prompts")
    _arbor(context, "tree_release", tree_id=cone["head"]["tree_id"], owner_id=OWNER)
    return {"type": "cone_deleted", "cone_id": cone["id"], "name": cone["name"]}


def chat(identifier: str, prompt: str, ephemeral: bool = False, context=None):
    """Say something to a cone; the answer comes as it is made.

    Args:
        identifier: Its name or its UUID.
        prompt: What to say.
        ephemeral: Whether the cone is to forget this exchange.
    """
    cone = _cone(context, identifier)
    messages = [*_history(context, cone), {"role": "user", "content": prompt}]
    yield _said("chat_start", cone, user_position=cone["head"])
    answer = ""
    ending: dict = {}
    for piece in _answered(context, cone, messages):
        if isinstance(piece, str):
            answer += piece
            yield _said("chat_content", cone, piece, content=piece)
        else:
            ending = piece
    if not answer:
        raise ToolFailed(f"{cone['model_id']} gave an empty answer")
    head = cone["head"] if ephemeral else _kept(context, cone, prompt, answer)
    yield _said("chat_complete", cone, new_head=head, **ending)


def set_head(identifier: str, node_id: UUID, context=None) -> dict:
    """Move a cone to another place of its tree: the next chat goes on from there.

    Args:
        identifier: Its name or its UUID.
        node_id: A node of its tree.
    """
    cone = _cone(context, identifier)
    _arbor(context, "node_get", tree_id=cone["head"]["tree_id"], node_id=str(node_id))
    after = _moved(context, cone, str(node_id))
    return {"type": "head_updated", "cone_id": cone["id"], "new_head": after["head"]}


def registry(context=None) -> dict:
    """List the models that cones can use, and who runs them: an `endpoint`, the caller by `sampling`, or `nobody`."""
    if _base() is None:
        runs = "sampling" if "sampling" in context.capabilities else "nobody"
        return {"type": "registry", "executor": runs, "models": [{"id": one} for one in _allowed()]}
    models = _allowed() or _models(context)
    return {"type": "registry", "executor": "endpoint", "models": [{"id": one} for one in models]}


# Cones and their trees


def _said(kind: str, cone: dict, words: str = "", **members: Any) -> Data:
    return Data({"type": kind, "cone_id": cone["id"], **members}, "cone.event", words)


def _cone(context, identifier: str) -> dict:
    found = context.state.get(f"name/{identifier}") or identifier
    cone = context.state.get(f"cone/{found.lower()}")
    if cone is None:
        raise ToolFailed(_unknown(context, identifier))
    return cone


def _unknown(context, identifier: str) -> str:
    known = ", ".join(key.partition("/")[2] for key in context.state.starting("name/")[:20]) or "none"
    return f"there is no cone {identifier!r:.120}; there are: {known}"


def _check_free(context, name: str) -> None:
    if f"name/{name}" in context.state:
        raise _taken(name)


def _taken(name: str) -> ToolFailed:
    return ToolFailed(f"there is a cone {name!r} already")


def _is_uuid(text: str) -> bool:
    try:
        return bool(UUID(text))
    except ValueError:
        return False


def _history(context, cone: dict) -> Any:
    """What leads to the head, as messages for a model. Nodes that hold no text are none."""
    nodes = _arbor(context, "context_get_path", **cone["head"])["nodes"]
    texts = [node for node in nodes if node["data"]["type"] == "text" and node["data"]["content"]]
    return [
        {"role": (node["metadata"] or {}).get("role", "user"), "content": node["data"]["content"]} for node in texts
    ]


def _kept(context, cone: dict, prompt: str, answer: str) -> dict:
    """Add a question and its answer below the head they belong to, and move the head; answers the new head."""
    tree, node = cone["head"]["tree_id"], cone["head"]["node_id"]
    for text, about in ((prompt, {"role": "user"}), (answer, {"role": "assistant", "model_id": cone["model_id"]})):
        made = _arbor(context, "node_create_text", tree_id=tree, parent=node, content=text, metadata=about)
        node = made["node_id"]
    return _moved(context, cone, node)["head"]


def _moved(context, cone: dict, node: str) -> dict:
    """The cone with another head, whatever other calls do meanwhile. Raises ToolFailed when it has been deleted."""
    while True:
        before = _cone(context, cone["id"])
        after = before | {"head": before["head"] | {"node_id": node}, "updated_at": time.time()}
        if context.state.swap({f"cone/{cone['id']}": after}, {f"cone/{cone['id']}": before}):
            return after


def _arbor(context, tool: str, **arguments: Any) -> dict:
    """What a tool of arbor answers. Raises ToolFailed."""
    result = context.call_quietly("arbor", tool, **arguments)
    if result.get("isError"):
        raise ToolFailed(" ".join(block.get("text", "") for block in result["content"]))
    return result["structuredContent"]


# Who answers: an endpoint, or the caller's own model


def _answered(context, cone: dict, messages: Any) -> Iterator[str | dict]:
    """The pieces of an answer as they come, then its `usage` and `finish_reason`. Raises ToolFailed."""
    if _base() is not None:
        yield from (_messages if _speaks_anthropic() else _completed)(context, cone, messages)
    elif "sampling" in context.capabilities:
        yield from _sampled(context, cone, messages)
    else:
        raise ToolFailed(
            "there is no model: set CONE_URL in the environment of the hub to the base address of an API that "
            "speaks OpenAI's chat completions or Anthropic Messages (and CONE_KEY to its key), or call from a client "
            "that offers sampling"
        )


def _sampled(context, cone: dict, messages: Any) -> Iterator[str | dict]:
    asked = [{"role": one["role"], "content": {"type": "text", "text": one["content"]}} for one in messages]
    options = {"system_prompt": cone["system_prompt"]} if cone["system_prompt"] else {}
    hints = {"hints": [{"name": cone["model_id"]}]}
    answer = context.sample(asked, SAMPLED, model_preferences=hints, **options)
    blocks = [answer["content"]] if isinstance(answer["content"], dict) else answer["content"]
    yield "".join(block.get("text", "") for block in blocks)
    yield {"usage": None, "finish_reason": answer.get("stopReason")}


def _completed(context, cone: dict, messages: Any) -> Iterator[str | dict]:
    system = [{"role": "system", "content": cone["system_prompt"]}] if cone["system_prompt"] else []
    body = {"model": cone["model_id"], "messages": [*system, *messages], "stream": True}
    body["stream_options"] = {"include_usage": True}
    with _asked(context, "/chat/completions", body) as response:
        if "text/event-stream" not in response.headers.get("Content-Type", ""):
            whole = _json(_guarded(response.read, LINE), "answer")
            yield from _parts(whole, "message")
            yield {"usage": whole.get("usage"), "finish_reason": _reason(whole)}
            return
        usage, reason, done = None, None, False
        while not done and (line := _guarded(response.readline, LINE)):
            text = line.strip().removeprefix(b"data:").strip() if line.startswith(b"data:") else b""
            if done := text == b"[DONE]":
                break
            if text:
                chunk = _json(text, "stream")
                yield from _parts(chunk, "delta")
                usage, reason = chunk.get("usage") or usage, _reason(chunk) or reason
    if not done and reason is None:
        raise ToolFailed("the model's endpoint broke off in the middle of its answer")
    yield {"usage": usage, "finish_reason": reason}


def _messages(context, cone: dict, messages: Any) -> Iterator[str | dict]:
    """The same from an endpoint that speaks the Anthropic Messages API."""
    body = {"model": cone["model_id"], "messages": messages, "max_tokens": ANSWER_TOKENS, "stream": True}
    body |= {"system": cone["system_prompt"]} if cone["system_prompt"] else {}
    usage: dict = {}
    reason, done = None, False
    with _asked(context, "/messages", body) as response:
        if "text/event-stream" not in response.headers.get("Content-Type", ""):
            whole = _json(_guarded(response.read, LINE), "answer")
            yield "".join(block.get("text", "") for block in whole.get("content") or ())
            yield {"usage": whole.get("usage"), "finish_reason": whole.get("stop_reason")}
            return
        while not done and (line := _guarded(response.readline, LINE)):
            if not line.startswith(b"data:"):
                continue
            event = _json(line.removeprefix(b"data:").strip(), "stream")
            if event.get("type") == "error":
                raise ToolFailed(f"the model's endpoint failed: {_fault(event)}")
            delta = event.get("delta") or {}
            if event.get("type") == "content_block_delta" and delta.get("text"):
                yield str(delta["text"])
            usage |= event.get("usage") or (event.get("message") or {}).get("usage") or {}
            reason = delta.get("stop_reason") or reason
            done = event.get("type") == "message_stop"
    if not done:
        raise ToolFailed("the model's endpoint broke off in the middle of its answer")
    yield {"usage": usage or None, "finish_reason": reason}


def _parts(chunk: dict, member: str) -> Iterator[str]:
    """The text of a chunk. Raises ToolFailed for an error that came in its place."""
    if chunk.get("error"):
        raise ToolFailed(f"the model's endpoint failed: {_fault(chunk)}")
    for choice in (chunk.get("choices") or ())[:1]:
        text = (choice.get(member) or {}).get("content")
        if isinstance(text, str) and text:
            yield text


def _reason(chunk: dict) -> str | None:
    return next((choice.get("finish_reason") for choice in chunk.get("choices") or ()), None)


class _Stay(HTTPRedirectHandler):
    """Goes nowhere else: a key is for one address."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _fetched(context, path: str) -> dict:
    with _asked(context, path) as response:
        return _json(_guarded(response.read, LINE), "answer")


def _asked(context, path: str, body: dict | None = None) -> HTTPResponse:
    """The endpoint's answer, not yet read. Raises ToolFailed for one that is no success."""
    key = os.environ.get("CONE_KEY", "").strip()  # a file's line end is no part of it
    if not (key.isascii() and key.isprintable()):
        # Said here, as the library would show the whole key.
        raise ToolFailed("CONE_KEY: expected a key of printable ASCII characters")
    headers = {"Content-Type": "application/json", "Accept": "text/event-stream, application/json"}
    if _speaks_anthropic():
        headers |= {"anthropic-version": ANTHROPIC_VERSION} | ({"x-api-key": key} if key else {})
    elif key:
        headers |= {"Authorization": f"Bearer {key}"}
    data = None if body is None else json.dumps(body).encode()
    request = Request(f"{_base()}{path}", data, headers)
    try:
        return build_opener(_Stay).open(request, timeout=max(0.1, min(context.left(), SILENCE)))
    except HTTPError as problem:
        with problem:
            said = _refusal(problem)
        raise ToolFailed(said.replace(key, "***") if key else said) from None
    except (OSError, HTTPException, ValueError) as problem:
        reason = getattr(problem, "reason", problem)
        raise ToolFailed(f"the model's endpoint cannot be reached: {reason}") from None


def _refusal(problem: HTTPError) -> str:
    """The message of an error response."""
    data = _guarded(problem.read, FAULT)
    try:
        said = _fault(json.loads(data))
    except (ValueError, AttributeError):
        said = data.decode("utf-8", "replace").strip()[:1000]
    after = problem.headers.get("Retry-After")
    hint = f" (try again after {after} seconds)" if after and after.isdigit() else ""
    return f"the model's endpoint answered {problem.code} {problem.reason}: {said}{hint}"


def _fault(answer: dict) -> str:
    error = answer.get("error")
    return str(error.get("message", error) if isinstance(error, dict) else error or answer)[:1000]


def _guarded(read: Callable[[int], bytes], most: int) -> bytes:
    """Bytes of the endpoint. Raises ToolFailed when it stays silent or breaks off, or says more than it may."""
    try:
        data = read(most + 1)
    except TimeoutError:
        raise ToolFailed(f"the model's endpoint said nothing for {SILENCE:g} s, or until the time was over") from None
    except (OSError, HTTPException) as problem:
        said = f"{type(problem).__name__}: {problem}"
        raise ToolFailed(f"the model's endpoint broke off in the middle of its answer: {said}") from None
    if len(data) > most:
        raise ToolFailed(f"the model's endpoint sent a piece of more than {most} bytes")
    return data


def _json(data: bytes, what: str) -> dict:
    try:
        value = json.loads(data)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise ToolFailed(f"the model's endpoint sent no JSON object in its {what}: {data[:200]!r}")
    return value


def _base() -> str | None:
    """The base address of the endpoint without a slash at its end; None when it is not set. Raises ToolFailed."""
    url = os.environ.get("CONE_URL", "").rstrip("/")
    if url and not url.startswith(("http://", "https://")):
        raise ToolFailed("CONE_URL: expected an address that begins with http:// or https://")
    return url or None


def _speaks_anthropic() -> bool:
    """Whether the endpoint speaks the Anthropic Messages API. Raises ToolFailed for a CONE_API that is not known."""
    said = os.environ.get("CONE_API", "").strip().lower()
    if said and said not in APIS:
        raise ToolFailed(f"CONE_API: expected {' or '.join(APIS)}, got {said!r:.40}")
    return said == "anthropic" or (not said and (urlsplit(_base() or "").hostname or "").endswith("anthropic.com"))


def _models(context) -> Any:
    """The models that the endpoint lists. Raises ToolFailed."""
    return sorted(str(one.get("id")) for one in _fetched(context, "/models").get("data") or ())


def _listed(context) -> Any:
    """The models that the endpoint lists; none when there is no endpoint, or it has no list."""
    try:
        return _models(context) if _base() is not None else ()
    except ToolFailed:
        return ()


def _allowed() -> Any:
    return [one.strip() for one in os.environ.get("CONE_MODELS", "").split(",") if one.strip()]
