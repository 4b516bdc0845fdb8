"""A program that stands in for `claude`: it speaks the stream-json of print mode, keeps conversations, and can fail.

The first word on standard input selects its behaviour. It keeps each conversation in a file beside
itself and notes its argument vector and process id there. Only the standard library is used: it runs on its own.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from uuid import uuid4

HOME = Path(__file__).resolve().parent
OPTIONS = dict(word.partition("=")[::2] for word in sys.argv[1:])


def write(line: str) -> None:
    """One line on standard output."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def write_event(**event: object) -> None:
    """One line of stream-json."""
    write(json.dumps(event))


def piece(message: str, text: str) -> None:
    """A part of an answer that is still being made."""
    delta = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}
    write_event(type="stream_event", event={"type": "message_start", "message": {"id": message}}, session_id=session)
    write_event(type="stream_event", event=delta, session_id=session)


def answer(text: str, message: str = "m1") -> None:
    """A whole answer, after its parts."""
    for word in text.split(" "):
        piece(message, word + " ")
    write_event(
        type="assistant", message={"id": message, "content": [{"type": "text", "text": text + " "}]}, session_id=session
    )


def finish(text: str, subtype: str = "success") -> None:
    """The last word."""
    usage = {"input_tokens": 3, "output_tokens": 5}
    wrong = subtype != "success"
    write_event(
        type="result", subtype=subtype, is_error=wrong, result=text, session_id=session, usage=usage, num_turns=1
    )


def hang() -> None:
    """Start a child, ignore the signal that asks to end, and never end."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    (HOME / "pids").write_text(f"{os.getpid()} {child.pid}")
    piece("m1", "still here")
    time.sleep(600)


(HOME / "argv").write_text(json.dumps(sys.argv[1:]))
(HOME / "folder").write_text(str(Path.cwd()))
(HOME / "environment").write_text(json.dumps(dict(os.environ)))
told = sys.stdin.read()
before = OPTIONS.get("--resume")
history = json.loads((HOME / f"{before}.json").read_text()) if before else []
session = before if before and "--fork-session" not in OPTIONS else str(uuid4())
write_event(type="system", subtype="init", session_id=session, model=OPTIONS.get("--model"), tools=["Bash"])

match told.partition(" ")[0]:
    case "crash":
        piece("m1", "half an ans")
        sys.stderr.write("out of luck\n")
        sys.stderr.flush()
        os._exit(3)
    case "hang":
        hang()
    case "garbage":
        write("this is {not} json")
        answer("fine all the same")
    case "think":
        write_event(type="assistant", message={"id": "m0", "content": [{"type": "thinking", "thinking": "hm"}]})
        use = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}}
        write_event(type="assistant", message={"id": "m0", "content": [use]})
        result = {"type": "tool_result", "tool_use_id": "t1", "content": "a b", "is_error": False}
        write_event(type="user", message={"content": [result]})
        answer("two files")
    case "stay":
        answer("said")
        finish("said")
        time.sleep(600)
    case "login":
        answer("Please log in")
        usage = {"input_tokens": 0, "output_tokens": 0}
        write_event(
            type="result", subtype="success", is_error=True, result="Please log in", session_id=session, usage=usage
        )
        sys.exit(1)
    case "limit":
        answer("not done")
    case "history":
        answer(" | ".join(history) or "nothing")
    case _:
        answer(f"you said {told}")
(HOME / f"{session}.json").write_text(json.dumps([*history, told]))
if told.startswith("limit"):
    finish("", "error_max_turns")
else:
    finish("done")
