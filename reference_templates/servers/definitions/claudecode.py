"""Claude Code: sessions over the `claude` command, with its events as they come.

A session is a name, a folder, a model and the id under which `claude` keeps the conversation. Each exchange that
`claude` finished is a turn; a turn knows the one before it, so a fork shares its past. A chat that breaks off leaves
the session as it was. The environment says how it runs: CLAUDE_COMMAND, CLAUDE_ARGUMENTS (further options, as a shell
would split them), CLAUDE_ROOT (the folder that working folders have to lie in), CLAUDE_LOOPBACK (this hub's address).
"""

import json
import os
import re
import shlex
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

from patchbay import Command, Data, ToolFailed, run

NAME = re.compile(r"[A-Za-z0-9_.-]{1,100}")
LEASE = 30.0
"""Seconds after its last sign of life when a chat counts as lost."""

BEAT = 10.0
"""Seconds between two signs of life."""

FLUSH = 0.5
"""Seconds that the events of a background chat wait to be kept together."""

FAREWELL = 2.0
"""Seconds in which `claude` has to end after it has given its result."""

GRACE = 0.25
"""Seconds that `claude` has to end after a cancellation; the rest of the time is for the end of the tool itself."""

LARGEST = 256 * 1024
"""Characters of events that are kept together, and of one event that is kept whole."""

LOOPBACK = "patchbay"
"""The name under which claude knows this hub."""

LINE = 16 * 1024 * 1024
"""Bytes of one line of `claude`."""


def create(
    name: str,
    working_dir: str,
    model: Literal["opus", "sonnet", "haiku"],
    system_prompt: str | None = None,
    loopback_enabled: bool = False,
    context=None,
) -> dict:
    """Create a session. Nothing runs before its first chat.

    Args:
        name: What to call it: up to 100 letters, digits, dots, dashes or underscores.
        working_dir: The folder that claude works in: an absolute path.
        model: Which model answers.
        system_prompt: A system prompt that replaces the prompt of claude.
        loopback_enabled: Whether claude may use the tools of this hub.
    """
    _check_name(name)
    session = {
        "id": str(uuid4()),
        "name": name,
        "working_dir": _folder(working_dir),
        "model": model,
        "system_prompt": system_prompt,
        "loopback_enabled": loopback_enabled,
        "claude_session_id": None,
        "forked": False,
        "head": None,
        "created_at": time.time(),
    }
    _add(context, session)
    return {"type": "session_created", "id": session["id"], "name": name, "head": None}


def get(name: str, turns: int = 10, context=None) -> dict:
    """Show a session and its latest turns, oldest first.

    Args:
        name: Which session.
        turns: How many turns to show at most.
    """
    session = _session(context, name)
    past = _past(context, session["head"], max(0, turns))
    return {"type": "session_data", "session": _shown(session), "turns": past[::-1]}


def list(context=None) -> dict:
    """List the sessions by name."""
    return {"type": "session_list", "sessions": [_shown(one) for one in _sessions(context)]}


def delete(name: str, context=None) -> dict:
    """Delete a session, its background chats, and the turns that no fork shares.

    Args:
        name: Which session. It must not be in the middle of a chat.
    """
    session = _session(context, name)
    _check_free(context, session)
    for stream in _streams(context, name):
        _forget(context, [*_keys(context, f"events/{stream['stream_id']}/"), f"stream/{stream['stream_id']}"])
    _forget(context, [f"session/{name}"])
    shared = {turn["id"] for one in _sessions(context) for turn in _past(context, one["head"])}
    own = [turn["id"] for turn in _past(context, session["head"]) if turn["id"] not in shared]
    _forget(context, [f"turn/{turn}" for turn in own])
    return {"type": "session_deleted", "id": session["id"], "name": name}


def fork(name: str, new_name: str, context=None) -> dict:
    """Begin a new session with the past of another. From here on they go separate ways.

    Args:
        name: Which session.
        new_name: What to call the new one.
    """
    _check_name(new_name)
    # What claude keeps under the shared id must not change any more: whichever of the two goes on leaves it.
    session = _change(context, name, lambda old: {"forked": old["claude_session_id"] is not None})
    fresh = session | {"id": str(uuid4()), "name": new_name, "created_at": time.time()}
    _add(context, fresh)
    return {"type": "session_forked", "id": fresh["id"], "name": new_name, "head": fresh["head"]}


def chat(session_name: str, query: str, max_turns: int | None = None, ephemeral: bool = False, context=None):
    """Say something to a session; the answer comes as it is made.

    Args:
        session_name: Which session.
        query: What to say.
        max_turns: How many rounds of tool use claude may take.
        ephemeral: Whether the session is to forget this exchange.
    """
    session = _session(context, session_name)
    for event in _exchange(context, session, query, max_turns, ephemeral, lambda: None):
        if event["type"] == "error":
            raise ToolFailed(event["message"])
        if event["type"] == "tool_use":
            context.uses(event["tool_name"], event["input"], event["tool_use_id"])
        words = event["text"] if event["type"] == "content" else ""
        yield Data(event, "claudecode.event", words)


def chat_async(
    session_name: str, query: str, max_turns: int | None = None, ephemeral: bool = False, context=None
) -> dict:
    """Say something to a session in the background; `poll` gets the events.

    Args:
        session_name: Which session.
        query: What to say.
        max_turns: How many rounds of tool use claude may take.
        ephemeral: Whether the session is to forget this exchange.
    """
    session = _session(context, session_name)
    _check_free(context, session)
    _command()
    stream = str(uuid4())
    _keep_stream(context, stream, session_name, "running", 0)
    context.start(
        "_background", stream=stream, name=session_name, query=query, max_turns=max_turns, ephemeral=ephemeral
    )
    return {"type": "stream_started", "stream_id": stream, "session_name": session_name}


def poll(stream_id: str, from_seq: int = 0, limit: int = 100, context=None) -> dict:
    """Get the events of a background chat. Ask again from `next_seq` until `done`.

    Args:
        stream_id: Which background chat.
        from_seq: The number of the first event wanted; they count from 0.
        limit: How many events at most.
    """
    key = f"stream/{stream_id}"
    if key not in context.state:
        raise ToolFailed(f"there is no background chat {stream_id!r:.80}")
    stream = _status(context.state[key])
    keys = _keys(context, f"events/{stream_id}/")
    first = [int(one.rpartition("/")[2]) for one in keys]
    events: Any = []
    for number, (begin, one) in enumerate(zip(first, keys, strict=True)):
        after = first[number + 1] if number + 1 < len(first) else float("inf")
        if after > from_seq and len(events) < limit:
            events += [{"seq": begin + place, **event} for place, event in enumerate(context.state[one])]
            events = [event for event in events if event["seq"] >= from_seq][: max(0, limit)]
    following = events[-1]["seq"] + 1 if events else max(0, from_seq)
    done = stream["status"] != "running" and following >= stream["events"]
    return {"type": "poll", **stream, "events": events, "next_seq": following, "done": done}


def streams(session_name: str | None = None, context=None) -> dict:
    """List background chats, the latest first.

    Args:
        session_name: Only those of this session.
    """
    return {"type": "stream_list", "streams": _streams(context, session_name)}


def _background(stream: str, name: str, query: str, max_turns: int | None, ephemeral: bool, context) -> None:
    """One background chat: its events go into the memory of the server, some together."""
    waiting: Any = []
    count, size, due, beat, outcome = 0, 0, 0.0, 0.0, "interrupted"

    def look(status: str = "running") -> None:
        nonlocal count, size, due, beat
        now = time.monotonic()
        full = bool(waiting) and (status != "running" or size > LARGEST or now >= due)
        if full:
            context.state[f"events/{stream}/{count:08d}"] = waiting
            count, size = count + len(waiting), 0
            waiting.clear()
        if full or status != "running" or now >= beat:
            _keep_stream(context, stream, name, status, count)
            beat = now + BEAT

    try:
        for event in _exchange(context, _session(context, name), query, max_turns, ephemeral, look):
            due = due if waiting else time.monotonic() + FLUSH
            size += _append(waiting, event)
            outcome = event["type"] if event["type"] in ("complete", "error") else outcome
            look()
    except ToolFailed as problem:
        _append(waiting, {"type": "error", "message": problem.message})
        outcome = "error"
    finally:
        look(outcome)


def _append(events: Any, event: dict) -> int:
    """Add an event to others, text to text; answers how much there is more of it."""
    size = len(json.dumps(event))
    if size > LARGEST:
        event = {"type": event["type"], "truncated": True, "text": json.dumps(event)[:LARGEST]}
    if event["type"] == "content" and events and events[-1]["type"] == "content":
        events[-1] = {"type": "content", "text": events[-1]["text"] + event["text"]}
    else:
        events.append(event)
    return min(size, LARGEST)


def _exchange(
    context,
    session: dict,
    query: str,
    max_turns: int | None,
    ephemeral: bool,
    look: Callable[[], None],
) -> Iterator[dict]:
    """One exchange with claude as events, the last one `complete` or `error`; `look` is called now and then."""
    program = _command()
    heard = _Heard()
    with _Lease(context, session) as lease:
        session = _session(context, session["name"])  # as the chat before this one left it
        argv = [program, *_options(session, max_turns, ephemeral)]
        command = Command(argv, dict(os.environ), Path(_folder(session["working_dir"])), query.encode())
        turn = {"id": str(uuid4()), "parent": session["head"], "query": query, "at": time.time()}
        yield {"type": "start", "id": session["id"], "user_position": turn["id"]}
        with closing(run(command, grace=GRACE)) as child:
            while not heard.over():
                lease.renew()
                try:
                    piece = next(child)
                except StopIteration as end:
                    heard.code = end.value
                    break
                if piece is not None:
                    yield from heard.take(*piece)
                look()
        last = _ended(context, session["name"], turn, heard, ephemeral)
    yield last


def _ended(context, name: str, turn: dict, heard: "_Heard", ephemeral: bool) -> dict:
    """The last event of an exchange.

    A finished turn is stored, and so is a turn that reached a limit. A cancelled turn is not stored, and neither is a
    refusal: without a login (claude reports it as a success), or for an unknown conversation.
    """
    result = heard.result
    if result is None:
        return {"type": "error", "message": heard.story()}
    wrong = _wrong(result)
    known = result.get("session_id") or heard.session
    if not ephemeral and (wrong is None or str(result.get("subtype")).startswith("error_max")):
        context.state[f"turn/{turn['id']}"] = turn | {"answer": heard.said[:LARGEST], "error": wrong}
        moved = {"head": turn["id"], "claude_session_id": known, "forked": False}
        _change(context, name, lambda _: moved)
    if wrong:
        return {"type": "error", "message": wrong}
    usage = (result.get("usage") or {}) | {
        key: result[key] for key in ("total_cost_usd", "num_turns", "duration_ms") if key in result
    }
    head = turn["parent"] if ephemeral else turn["id"]
    return {"type": "complete", "new_head": head, "claude_session_id": known, "usage": usage}


def _wrong(result: dict) -> str | None:
    """The error of a result of claude, as a sentence."""
    if not result.get("is_error") and result.get("subtype", "success") == "success":
        return None
    said = result.get("result") or ", ".join(map(str, result.get("errors") or ())) or "it did not say why"
    kind = result.get("subtype", "success")
    return f"claude failed: {said}" if kind == "success" else f"claude ended with {kind}: {said}"


class _Heard:
    """What claude said so far. `result` is its own last word, `code` its exit code, `session` the id it gave itself."""

    def __init__(self) -> None:
        self.code: int | None = None
        self.result: Any = None
        self.session: str | None = None
        self.said = ""
        self._line: Any = []
        self._errors = b""
        self._streamed: set[str] = set()
        self._message = ""
        self._until = 0.0

    def take(self, channel: str, data: bytes) -> Iterator[dict]:
        """The events of a piece of output."""
        if channel == "stderr":
            self._errors = (self._errors + data)[-4000:]
            return
        *lines, rest = data.split(b"\n")
        for line in lines:
            whole, self._line = b"".join([*self._line, line]).strip(), []
            if whole:
                yield from self._event(whole)
        self._line.append(rest)
        if sum(map(len, self._line)) > LINE:
            raise ToolFailed(f"claude wrote a line of more than {LINE} bytes")

    def over(self) -> bool:
        """Whether claude has said its last word and does not end."""
        return self.result is not None and time.monotonic() > self._until

    def story(self) -> str:
        """How claude ended without a result."""
        how = f"was ended by signal {-self.code}" if (self.code or 0) < 0 else f"ended with exit code {self.code}"
        said = self._errors.decode("utf-8", "replace").strip()
        return f"claude {how} before it was done" + (f": {said}" if said else "")

    def _event(self, line: bytes) -> Iterator[dict]:
        try:
            event = json.loads(line)
        except ValueError:
            event = None
        if not isinstance(event, dict):
            yield {"type": "unknown", "line": line.decode("utf-8", "replace")[:2000]}
            return
        self.session = event.get("session_id") or self.session
        match event.get("type"):
            case "assistant" | "user":
                yield from self._blocks(event.get("message") or {})
            case "stream_event":
                yield from self._piece(event.get("event") or {})
            case "result":
                self.result, self._until = event, time.monotonic() + FAREWELL
            case _:
                yield {"type": "passthrough", "event": event}

    def _piece(self, event: dict) -> Iterator[dict]:
        """A part of a message that is still being made; the whole message comes later and is not said twice."""
        if event.get("type") == "message_start":
            self._message = str((event.get("message") or {}).get("id"))
        delta = event.get("delta") or {}
        if event.get("type") == "content_block_delta" and delta.get("type") in ("text_delta", "thinking_delta"):
            self._streamed.add(self._message)
            yield from self._said(delta["type"].removesuffix("_delta"), delta)

    def _blocks(self, message: dict) -> Iterator[dict]:
        content = message.get("content")
        for block in content if isinstance(content, Sequence) and not isinstance(content, str) else ():
            kind = block.get("type")
            if kind in ("text", "thinking") and message.get("id") not in self._streamed:
                yield from self._said(kind, block)
            elif kind == "tool_use":
                names = {"tool_name": block.get("name"), "tool_use_id": block.get("id")}
                yield {"type": "tool_use", **names, "input": block.get("input")}
            elif kind == "tool_result":
                done = {"tool_use_id": block.get("tool_use_id"), "output": block.get("content")}
                yield {"type": "tool_result", **done, "is_error": bool(block.get("is_error"))}

    def _said(self, kind: str, holder: dict) -> Iterator[dict]:
        text = holder.get(kind)
        if isinstance(text, str) and text:
            self.said += text if kind == "text" else ""
            yield {"type": "content" if kind == "text" else "thinking", "text": text}


class _Lease:
    """That a chat of a session runs, known to all others until it ends or shows no sign of life. Raises ToolFailed."""

    def __init__(self, context, session: dict) -> None:
        self._state, self._key = context.state, f"busy/{session['id']}"
        self._until: float | None = None
        self._beat = 0.0
        seen = self._state.get(self._key)
        if (seen or 0) > time.time() or not self._set(seen):
            raise ToolFailed(_busy(session))

    def renew(self) -> None:
        """Give a sign of life, now and then."""
        if time.monotonic() >= self._beat and not self._set(self._until):
            raise ToolFailed("another chat of this session has begun meanwhile")

    def __enter__(self) -> "_Lease":
        return self

    def __exit__(self, *_: Any) -> None:
        self._state.swap({self._key: None}, {self._key: self._until})

    def _set(self, seen: float | None) -> bool:
        self._beat = time.monotonic() + BEAT
        until = time.time() + LEASE
        if self._state.swap({self._key: until}, {self._key: seen}):
            self._until = until
            return True
        return False


def _command() -> str:
    """The path of the program. Raises ToolFailed when it is not there."""
    command = os.environ.get("CLAUDE_COMMAND", "claude")
    found = shutil.which(command)
    if found is None:
        raise ToolFailed(
            f"the command {command!r} is not installed here. Install Claude Code with "
            "`npm install -g @anthropic-ai/claude-code` and log in with `claude`, "
            "or name where it is in the variable CLAUDE_COMMAND of this hub"
        )
    return found


def _options(session: dict, max_turns: int | None, ephemeral: bool) -> Any:
    """The argument vector behind the program; what a caller said stands behind an option's own `=`."""
    options = ["-p", "--output-format=stream-json", "--verbose", "--include-partial-messages"]
    options += [f"--model={session['model']}", *shlex.split(os.environ.get("CLAUDE_ARGUMENTS", ""))]
    if session["system_prompt"]:
        options.append(f"--system-prompt={session['system_prompt']}")
    if max_turns is not None:
        options.append(f"--max-turns={max_turns}")
    if session["claude_session_id"]:
        options.append(f"--resume={session['claude_session_id']}")
        options += ["--fork-session"] if session["forked"] or ephemeral else []
    if session["loopback_enabled"]:
        hub = {"type": "http", "url": os.environ.get("CLAUDE_LOOPBACK", "http://127.0.0.1:8000/mcp")}
        options.append(f"--mcp-config={json.dumps({'mcpServers': {LOOPBACK: hub}})}")
        options.append(f"--allowedTools=mcp__{LOOPBACK}")  # no person can answer a permission prompt
    return options


def _folder(path: str) -> str:
    """A folder to work in, as it really is. Raises ToolFailed."""
    folder = Path(path).resolve()
    root = os.environ.get("CLAUDE_ROOT")
    if not Path(path).is_absolute() or not folder.is_dir():
        raise ToolFailed(f"working_dir: expected the absolute path of a folder that there is, got {path!r:.200}")
    if root and not folder.is_relative_to(Path(root).resolve()):
        raise ToolFailed(f"working_dir: expected a folder in {root}, got {path!r:.200}")
    return str(folder)


def _sessions(context) -> Any:
    """All sessions by name, without those that are deleted meanwhile."""
    return context.state.several(_keys(context, "session/")).values()


def _session(context, name: str) -> dict:
    session = context.state.get(f"session/{name}")
    if session is None:
        known = ", ".join(key.partition("/")[2] for key in _keys(context, "session/")[:20]) or "none"
        raise ToolFailed(f"there is no session {name!r:.120}; there are: {known}")
    return session


def _check_name(name: str) -> None:
    if not NAME.fullmatch(name):
        raise ToolFailed(f"name: expected 1 to 100 letters, digits, dots, dashes or underscores, got {name!r:.120}")


def _add(context, session: dict) -> None:
    key = f"session/{session['name']}"
    if not context.state.swap({key: session}, {key: None}):
        raise ToolFailed(f"there is a session {session['name']!r} already")


def _change(context, name: str, change: Callable[[dict], dict]) -> dict:
    """A session with some fields changed, in the memory too, whatever other calls do meanwhile. Raises ToolFailed."""
    while True:
        before = _session(context, name)
        after = before | change(before)
        if context.state.swap({f"session/{name}": after}, {f"session/{name}": before}):
            return after


def _check_free(context, session: dict) -> None:
    if context.state.get(f"busy/{session['id']}", 0) > time.time():
        raise ToolFailed(_busy(session))


def _busy(session: dict) -> str:
    return f"the session {session['name']!r} is in the middle of a chat; wait for its end, or fork it"


def _shown(session: dict) -> dict:
    return {key: value for key, value in session.items() if key != "forked"}


def _past(context, head: str | None, most: float = float("inf")) -> Any:
    """The turns that lead to a head, the latest first."""
    turns: Any = []
    while head is not None and len(turns) < most:
        turn = context.state.get(f"turn/{head}")
        if turn is None:
            break
        turns.append(turn)
        head = turn["parent"]
    return turns


def _keys(context, prefix: str) -> Any:
    return context.state.starting(prefix)


def _forget(context, keys: Any) -> None:
    context.state.swap(dict.fromkeys(keys), {})


def _keep_stream(context, stream: str, session: str, status: str, count: int) -> None:
    key = f"stream/{stream}"
    begun = context.state.get(key, {}).get("started_at", time.time())
    record = {"stream_id": stream, "session_name": session, "status": status, "events": count, "started_at": begun}
    context.state[key] = record | {"seen_at": time.time()}


def _streams(context, session: str | None) -> Any:
    records = context.state.several(_keys(context, "stream/")).values()
    found = [_status(record) for record in records if session in (None, record["session_name"])]
    return sorted(found, key=lambda record: record["started_at"], reverse=True)


def _status(record: dict) -> dict:
    """A background chat as it is shown: one that gives no sign of life any more is lost."""
    lost = record["status"] == "running" and record["seen_at"] + LEASE < time.time()
    return record | {"status": "lost"} if lost else record
