"""Effects of a definition on its own process, and its environment there."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from patchbay.activation import activate
from patchbay.events import Done, Event, Failed, Log, Pause, Text, ToolUse
from patchbay.kinds.python.workers.worker_pool import WorkerPool
from tests.kinds.calls import SmallHub, alive, call_of, events, next_event
from tests.kinds.python.workers.conversing import descriptors, failure, family, hosted, value
from tests.waiting import until


@pytest.fixture(scope="module")
def hosts() -> Iterator[WorkerPool]:
    made = WorkerPool()
    yield made
    made.close()


ENDS = [
    ("import os; os._exit(3)", "the tool ended its process with exit code 3"),
    ("import os; os._exit(0)", "the tool ended its process with exit code 0"),
    ("import ctypes; ctypes.string_at(0)", "the tool's process was ended by SIGSEGV (Segmentation fault)"),
    ("import os; os.abort()", "the tool's process was ended by SIGABRT (Aborted)"),
    ("import os; os.kill(os.getpid(), 9)", "the tool's process was killed (SIGKILL), as the system does when memory"),
    ("import os; os.kill(os.getpid(), 24)", "the tool used up its CPU time (SIGXCPU)"),
    ("bytearray(10**10)", "tool ran out of memory (limit 512 MiB)"),
    ("x = []\n    while True: x.append(bytearray(10**6))", "tool ran out of memory (limit 512 MiB)"),
    ("print('x' * 100, flush=True)\n    while True: print('y' * 10**6)", "the tool was stopped: it printed more than"),
    ("import os\n    while True: os.write(1, b'y' * 10**6)", "the tool was stopped: it printed more than"),
    ("while True: yield 'y' * 10**6", "the tool was stopped: it sent more than 67108864 bytes"),
    ("return 'y' * (70 * 2**20)", "the tool's process sent something that is not a message: a piece of 73400320 bytes"),
    ("import os; os.closerange(3, 99)\n    return 'x'", "the tool's process closed its connection to the hub"),
    ("open('f', 'wb').truncate(2**40)", "OSError: [Errno 27] File too large"),
]


@pytest.mark.parametrize(("body", "words"), ENDS)
def test_the_caller_gets_the_reason_of_every_end_of_a_worker(hosts: WorkerPool, body: str, words: str) -> None:
    """Segfaults, os._exit, memory, floods."""
    assert failure(hosted(hosts, f"def main():\n    {body}")).startswith(words)


def test_a_limit_of_memory_can_be_set(hosts: WorkerPool) -> None:
    source = "def main(): return len(bytearray(200 * 2**20))"
    assert value(hosted(hosts, source)) == 200 * 2**20
    assert failure(hosted(hosts, source, memory=100)) == "tool ran out of memory (limit 100 MiB)"


def test_events_before_the_end_of_a_worker_are_kept(hosts: WorkerPool) -> None:
    found = events(hosted(hosts, "import os\ndef main():\n    yield 'a'\n    os._exit(1)"), call_of())
    assert found[0] == Text("a")


FORKS = [
    "import os\ndef main():\n    if os.fork() == 0:\n        import time; time.sleep(600)\n    return 'x'",
    "import os\ndef main():\n    os.fork()\n    return 'x'",
    """
    import os, time
    def main():
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                os.setsid()
                time.sleep(600)
            os._exit(0)
        os.wait()
        return 'x'
    """,
    "import subprocess\ndef main():\n    subprocess.Popen(['sleep', '600'], start_new_session=True)\n    return 'x'",
    "import subprocess\ndef main():\n    subprocess.Popen('(setsid sleep 600 &) &', shell=True)\n    return 'x'",
    "import multiprocessing as m, time\ndef main():\n"
    "    m.get_context('fork').Process(target=time.sleep, args=(600,), daemon=True).start()\n    return 'x'",
]


def leftover(hosts: WorkerPool) -> int:
    """Return the number of processes that are not workers of the pool."""
    # The pool counts first: a worker that starts in between makes the number larger for a moment, never smaller.
    workers = sum(hosts.counts().now.values())
    return len(family(*hosts.pids)) - workers


@pytest.mark.parametrize("source", FORKS)
def test_a_process_of_a_call_does_not_outlive_it(hosts: WorkerPool, source: str) -> None:
    """Forks, and a double-forked daemon."""
    value(hosted(hosts, "def main(): return 'other'", "other"))
    for _ in range(3):
        assert events(hosted(hosts, source), call_of()) == [Text("x"), Done()]
    until(lambda: leftover(hosts) <= 0, "no process but the workers")


def test_a_process_that_dies_takes_its_daemons_with_it(hosts: WorkerPool) -> None:
    source = """
    import os, time
    def main():
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                time.sleep(600)
            os._exit(0)
        os.wait()
        os._exit(9)
    """
    value(hosted(hosts, "def main(): return 'other'", "other"))
    assert failure(hosted(hosts, source)) == "the tool ended its process with exit code 9"
    until(lambda: leftover(hosts) <= 0, "no process but the workers")


STUBBORN = [
    "while True:\n        try:\n            while True: pass\n        except BaseException: pass",
    "import signal, time\n    for n in (10, 12, 15): signal.signal(n, signal.SIG_IGN)\n    time.sleep(600)",
    "import ctypes; ctypes.CDLL(None).sleep(600)",
    "r, w = os.pipe()\n    os.read(r, 1)",
    "import re; re.match('(a+)+$', 'a' * 60 + 'b')",
    "import subprocess; subprocess.run(['bash', '-c', 'trap \"\" TERM; sleep 600 & wait; wait'])",
]


@pytest.mark.parametrize("body", STUBBORN)
def test_a_function_that_ignores_its_end_is_killed(hosts: WorkerPool, body: str) -> None:
    """The caller gets the error at the deadline, and no process is left soon after."""
    source = f"import os\ndef main(context):\n    context.state['pid'] = os.getpid()\n    {body}"
    hub = SmallHub()
    assert failure(hosted(hosts, source), left=0.5, hub=hub).startswith("timed out after")
    pid = hub.states["tool"]["pid"]
    until(lambda: not alive(pid))


def test_a_definition_that_hangs_while_it_is_loaded_is_timed_out(hosts: WorkerPool) -> None:
    assert failure(hosted(hosts, "while True: pass\ndef main(): ..."), left=0.3).startswith("timed out after")


def test_a_producer_waits_for_a_slow_reader(hosts: WorkerPool, tmp_path: Path) -> None:
    """Back-pressure from end to end: a full pipe stops the function."""
    source = """
    import pathlib
    def main(note):
        for n in range(500):
            yield 'x' * 10_000
            pathlib.Path(note).write_text(str(n))
    """
    note = tmp_path / "made"
    running = activate(hosted(hosts, source), call_of({"note": str(note)}))
    next(running)
    seen = [0, 1]

    def still() -> bool:
        seen.append(int(note.read_text() or 0) if note.exists() else 0)
        return len(set(seen[-40:])) == 1

    until(still)
    assert 0 < seen[-1] < 100
    assert sum(isinstance(event, Text) for event in running) == 499


def test_printed_output_is_logged_in_order_and_bounded(hosts: WorkerPool) -> None:
    source = r"""
    import os, sys
    def main():
        print("a")
        yield "one"
        print("b\nc", end="")
        print("err", file=sys.stderr)
        yield "two"
    """
    found = events(hosted(hosts, source), call_of())
    assert found == [
        *(Log("debug", "a", "stdout"), Text("one"), Log("debug", "b", "stdout")),
        *(Log("warning", "err", "stderr"), Text("two"), Log("debug", "c", "stdout"), Done()),
    ]


def test_output_of_programs_is_logged(hosts: WorkerPool) -> None:
    source = "import os\ndef main():\n    os.system('echo out; echo err >&2; printf rest')\n    return 'x'"
    found = events(hosted(hosts, source), call_of())
    lines: list[Event] = [Log("debug", line, "output") for line in ("out", "err", "rest")]
    assert sorted(map(str, found)) == sorted(map(str, [*lines, Text("x"), Done()]))


def test_a_flood_of_lines_is_cut(hosts: WorkerPool) -> None:
    found = events(hosted(hosts, "def main():\n    for n in range(20_000): print(n)\n    return 'x'"), call_of())
    assert found[-2:] == [Text("x"), Done()]
    assert found[-3] == Log("warning", "85000 more bytes of output were discarded", "stdout")
    assert len(found) == 5003


def test_nothing_of_the_hub_is_inherited(hosts: WorkerPool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Environment, descriptors."""
    source = """
    import os, stat, sys
    def main():
        kinds = {}
        for fd in map(int, os.listdir('/proc/self/fd')):
            try:
                kinds[fd] = stat.S_IFMT(os.fstat(fd).st_mode)
            except OSError:
                pass
        return [dict(os.environ), kinds, sys.stdin.read(), os.getsid(0) == os.getpid() == os.getpgid(0)]
    """
    monkeypatch.setenv("PATCHBAY_SECRET", "hidden")
    with socket.create_server(("127.0.0.1", 0)) as server, (tmp_path / "db").open("w") as file:
        os.set_inheritable(server.fileno(), True)
        os.set_inheritable(file.fileno(), True)
        own = WorkerPool()
        try:
            environ, kinds, stdin, leads = value(hosted(own, source))
        finally:
            own.close()
    assert set(environ) <= {"PATH", "HOME", "USER", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR"}
    assert len(kinds) == 4, "stdin, stdout, stderr and the link"
    assert (stdin, leads) == ("", True)


def test_descriptors_that_a_tool_leaves_open_do_not_pile_up(hosts: WorkerPool) -> None:
    source = "import os\nkept = []\ndef main():\n    kept.extend(os.dup(0) for _ in range(30))\n    return len(kept)"
    handler = hosted(hosts, source)
    before = descriptors()
    assert max(value(handler) for _ in range(60)) < 1000
    until(lambda: descriptors() <= before + 4)


def test_memory_that_a_tool_keeps_does_not_pile_up(hosts: WorkerPool) -> None:
    source = "import os\nkept = []\ndef main():\n    kept.append(bytes(b'x') * 40 * 2**20)\n    return os.getpid()"
    handler = hosted(hosts, source, memory=100)
    assert len({value(handler) for _ in range(6)}) >= 3


def test_memory_that_a_pure_function_keeps_does_not_pile_up(hosts: WorkerPool) -> None:
    """Such a function is not looked at after each call."""
    source = "kept = ''\ndef main(n):\n    global kept\n    kept += str(n) * 10 * 2**20\n    return len(kept)"
    handler = hosted(hosts, source, memory=100)
    assert max(value(handler, n=1) for _ in range(20)) < 70 * 2**20


def test_what_is_printed_past_python_belongs_to_the_call_that_printed_it(hosts: WorkerPool) -> None:
    """Calls of a pure function, whose output is not looked for, lie between."""
    source = """
    import os
    def plain(): return "plain"
    def main(words):
        os.write(1, f"{words}\\n".encode())
        return "printed"
    """
    handler = hosted(hosts, source)
    for word in ("one", "two", "three"):
        for _ in range(3):
            assert events(handler, call_of(target={"function": "plain"})) == [Text("plain"), Done()]
        found = events(handler, call_of({"words": word}))
        assert sorted(map(str, found)) == sorted(map(str, [Log("debug", word, "output"), Text("printed"), Done()]))


def test_a_call_after_those_of_a_pure_function_begins_in_an_empty_folder(hosts: WorkerPool) -> None:
    source = """
    import os, pathlib
    def plain(): return "plain"
    def main():
        found = [os.getcwd(), os.listdir()]
        pathlib.Path("left").write_text("x")
        os.chdir("/")
        return found
    """
    handler = hosted(hosts, source)
    found = []
    for _ in range(4):
        assert [value(handler, "plain") for _ in range(3)] == ["plain"] * 3
        found.append(value(handler))
    assert found == [[found[0][0], []]] * 4


def test_files_of_a_thread_that_goes_on_are_removed_after_the_next_call(hosts: WorkerPool) -> None:
    """Also after one of a pure function: with such a thread, every call is followed by a look."""
    source = """
    import os, pathlib, threading
    go, done = threading.Event(), threading.Event()
    def plain(): return "plain"
    def main():
        def write():
            for n in range(1000):
                go.wait()
                go.clear()
                pathlib.Path(f"left{n}").write_text("x")
                done.set()
        threading.Thread(target=write, daemon=True).start()
        return os.getcwd()
    def write():
        timer = threading.Timer(0.05, go.set)
        timer.start()
        return "begun"
    def wait(): return [done.wait(20)]
    """
    handler = hosted(hosts, source)
    value(handler, "plain")
    folder = value(handler)
    value(handler, "write")
    until(lambda: any(Path(folder).iterdir()), "the thread wrote its file")
    value(handler, "plain")
    until(lambda: not any(Path(folder).iterdir()), "the file is removed")


def test_the_reply_to_an_interrupted_request_does_not_answer_the_next_one(hosts: WorkerPool) -> None:
    """X-19: a tool cleans up with the hub's help after it was stopped during a call of another tool."""
    source = """
    def main(context):
        try:
            context.call("slow", "main")
        finally:
            context.state["after"] = context.state["before"]
    """
    hub = SmallHub(states={"tool": {"before": 7}})
    hub.servers["slow"] = hosted(hosts, "import time\ndef main(): time.sleep(600)", "slow")
    call = call_of(hub=hub)
    running = activate(hosted(hosts, source), call)
    assert [next(running), next(running)] == [ToolUse("slow.main", {}), Pause()]
    running.close()
    until(lambda: hub.states["tool"].get("after") == 7)


def test_a_worker_that_sends_unexpected_frames_is_ended(hosts: WorkerPool) -> None:
    """A definition may write to the pipe itself: the hub trusts no frame."""
    source = """
    import os, socket
    def main(data, context):
        for fd in range(3, 30):
            try:
                link = socket.socket(fileno=fd)
            except OSError:
                continue
            link.sendall(bytes.fromhex(data))
        while True: pass
    """
    handler = hosted(hosts, source)
    for data in ("ffffffff0a", "010000000aff", "0100000063ff", "020000000b7b7d", "03000000146e6f70", "010000000dff"):
        message = failure(handler, {"data": data}, left=5)
        assert message.startswith("the tool's process sent something that is not a message"), (data, message)


def test_a_signal_to_every_process_does_not_end_a_call(hosts: WorkerPool) -> None:
    """A process manager that signals every process of the service means the hub."""
    running = activate(
        hosted(hosts, "import os, time\ndef main():\n    yield os.getpid()\n    time.sleep(0.3)\n    yield 'z'"),
        call_of(),
    )
    first = next(running)
    pid = first.value  # type: ignore[union-attr]
    for number in (signal.SIGTERM, signal.SIGINT):
        os.kill(pid, number)
        for fork_server in hosts.pids:
            os.kill(fork_server, number)
    assert [event for event in running if isinstance(event, (Text, Done))] == [Text("z"), Done()]


def test_a_child_of_a_tool_ends_at_sigterm(hosts: WorkerPool) -> None:
    source = """
    import multiprocessing, subprocess, time
    def main():
        process = multiprocessing.get_context("fork").Process(target=time.sleep, args=(600,))
        process.start()
        process.terminate()
        process.join()
        child = subprocess.Popen(["sleep", "600"])
        child.terminate()
        return [process.exitcode, child.wait()]
    """
    assert value(hosted(hosts, source)) == [-15, -15]


def test_a_call_that_is_closed_in_the_middle_of_a_large_piece_cleans_up_with_the_hubs_help(
    hosts: WorkerPool, tmp_path: Path
) -> None:
    """X-19: the piece must be complete before another frame, which it would swallow otherwise."""
    source = """
    import os, pathlib, time
    def main(note, context):
        try:
            yield "a"
            pathlib.Path(note).write_text(str(os.getpid()))
            yield "x" * 5_000_000
            time.sleep(600)  # the piece may be whole before the signal comes, which is not to find the last line
        finally: context.state["cleaned"] = True
    """
    hub, note = SmallHub(), tmp_path / "pid"
    running = activate(hosted(hosts, source), call_of({"note": str(note)}, hub=hub))
    assert next_event(running) == Text("a")

    def waits_for_room() -> bool:
        pid = note.read_text() if note.exists() else ""
        return pid != "" and Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "S"

    until(waits_for_room)
    running.close()
    until(lambda: hub.states == {"tool": {"cleaned": True}})


def test_a_call_whose_signal_is_lost_gets_another_one(hosts: WorkerPool) -> None:
    """X-19: a signal between Python's last check and a blocking system call has no effect."""
    source = """
    import signal, time
    def main(context):
        theirs = signal.getsignal(signal.SIGUSR2)
        signal.signal(signal.SIGUSR2, lambda *_: signal.signal(signal.SIGUSR2, theirs))
        try:
            yield "a"
            time.sleep(600)
        finally: context.state["cleaned"] = True
    """
    hub = SmallHub()
    running = activate(hosted(hosts, source), call_of(hub=hub))
    assert next_event(running) == Text("a")
    running.close()
    until(lambda: hub.states == {"tool": {"cleaned": True}})


def test_the_last_output_of_a_process_is_read_even_late(hosts: WorkerPool, tmp_path: Path) -> None:
    source = r"""
    import os, pathlib
    def main(note):
        yield "a"
        yield "x" * 100_000
        os.write(2, b"dying words\n")
        pathlib.Path(note).write_text(str(os.getpid()))
        os._exit(3)
    """
    note = tmp_path / "pid"
    running = activate(hosted(hosts, source), call_of({"note": str(note)}))
    first = next_event(running)
    until(lambda: note.exists() and note.read_text() != "" and not alive(int(note.read_text())))
    found = [first, *(event for event in running if not isinstance(event, Pause))]
    words, end = Log("debug", "dying words", "output"), Failed("the tool ended its process with exit code 3")
    assert sorted(map(str, found)) == sorted(map(str, [Text("a"), Text("x" * 100_000), words, end]))


def test_a_call_that_removes_its_folder_does_not_fail_the_next(hosts: WorkerPool) -> None:
    source = "import os, shutil\ndef main():\n    shutil.rmtree(os.getcwd())\n    return 'x'\n"
    handler = hosted(hosts, f"{source}def after(): return [os.listdir()]")
    assert [value(handler), value(handler, "after")] == ["x", [[]]]


def test_limits_beyond_the_range_of_a_system_mean_its_maximum(hosts: WorkerPool) -> None:
    assert value(hosted(hosts, "def main(): return 'x'", memory=10**15)) == "x"
    assert Text("y") in events(hosted(hosts, "def main(): return 'y'"), call_of(left=1e19))


def test_a_wrong_request_to_the_hub_fails_with_a_sentence(hosts: WorkerPool) -> None:
    handler = hosted(hosts, "def main(context): context.state[5] = 1")
    assert failure(handler, hub=SmallHub()) == "state.set takes (str, any); got (int, int)"
