"""Shell definitions as tools: arguments, stdin, output, failures, and no process left behind."""

from __future__ import annotations

import os
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from patchbay.activation import Call, activate
from patchbay.errors import ToolFailed
from patchbay.events import Content, Done, Event, Failed, Log, Pause, Text
from patchbay.kinds.shell.handler import fill_argv
from tests.kinds.calls import alive, call_of, events, shell
from tests.waiting import until

EACH = 'for one in "$@"; do printf "[%s]" "$one"; done'
METACHARACTERS = "$(touch {0}) `touch {0}` ; touch {0} && touch {0} | touch {0} > {0} & \n touch {0} \" ' \\ * ~ !!"


Arguments = dict[str, Any] | None


def run(source: str | bytes, arguments: Arguments = None, argv: Any = None, left: float = 20.0) -> list[Event]:
    target = {"argv": argv} if argv is not None else {}
    return events(shell(source), call_of(arguments, left=left, target=target))


def output_of(source: str | bytes, arguments: Arguments = None, argv: Any = None) -> str:
    """Return the whole text of a run that must succeed."""
    seen = run(source, arguments, argv)
    assert seen[-1] == Done(), seen
    return "".join(event.text for event in seen if isinstance(event, Text))


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 (counts, opens nothing itself)


def test_a_one_liner_hands_its_argument_over_whole() -> None:
    """V-F11: `$1` is passed as one quoted argument."""
    assert output_of("@bash_command echo", {"args": "two  words; $HOME"}) == "two  words; $HOME\n"
    assert output_of("@bash_command printf [%s]\n", {"args": "a b"}) == "[a b]"


@pytest.mark.parametrize("given_args", [{}, {"args": ""}, {"args": "_"}, {"args": None}])
def test_a_one_liner_without_an_argument_runs_without_one(given_args: dict[str, Any]) -> None:
    """V-F11: `_` = none; T13.1: `{}` arguments."""
    assert output_of("@bash_command printf none%s", given_args) == "none"


def test_an_argument_that_the_schema_does_not_name_never_reaches_the_command() -> None:
    one = {"takes": "city"}
    assert events(shell("@bash_command echo"), call_of({"city": "Bern"}, target=one))[-1] == Done()
    for given_args in ({"town": "Bern"}, {"city": "Bern", "town": "Oslo"}):
        [refusal] = events(shell("@bash_command echo"), call_of(dict(given_args), target=one))
        assert isinstance(refusal, Failed)
        assert refusal.message == f"expected city, got {', '.join(map(repr, given_args))}"
    [refusal] = events(shell("@bash_command echo"), call_of({"city": "Bern"}, target={"takes": ""}))
    assert refusal == Failed("expected no argument, got 'city'")


def test_a_missing_program_is_named() -> None:
    """V-F11: 127 if the program is missing."""
    assert run("@bash_command no-such-program") == [
        Failed("the program 'no-such-program' is not installed here (exit code 127)")
    ]


@pytest.mark.parametrize("line", ["@bash_command", "@bash_command   ", "@bash_command 'open"])
def test_a_one_liner_without_a_program_is_refused(line: str) -> None:
    (failed,) = run(line)
    assert isinstance(failed, Failed)
    assert "@bash_command" in failed.message


def test_a_script_gets_its_arguments_one_by_one() -> None:
    """V-F11: scripts use $1..$9; V-C6: `command_args` is accepted."""
    assert output_of(EACH, {"args": "a 'b c' \"\" d\\ e"}) == "[a][b c][][d e]"
    assert output_of(EACH, {"command_args": "x y"}) == "[x][y]"
    assert output_of(EACH, {"args": "  "}) == ""


def test_open_quotes_are_refused() -> None:
    assert run(EACH, {"args": "it's"}) == [Failed("argument 'args': no closing quotation; each quote must be closed")]


def test_the_only_property_of_a_static_tool_is_one_argument() -> None:
    """V-C6: for static tools the only string property maps to `args`."""
    assert output_of(EACH, {"message": "hello 'there; $x"}) == "[hello 'there; $x]"
    assert output_of("@bash_command cat", {"input": "in"}) == "in"
    assert output_of('read line; echo "$1:$line"', {"filter": ". a", "input": "text\n"}) == ". a:text\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"a": "1", "b": "2"}, "expected 'args' and 'input', got 'a', 'b'"),
        ({"args": "1", "b": "2"}, "expected 'args' and 'input', got 'args', 'b'"),
        ({"args": ["a"]}, "argument 'args': expected a string, got [\"a\"]"),
        ({"input": 3}, "argument 'input': expected a string, got 3"),
        ({"message": "a\0b"}, "a program cannot take an argument given for 'bash'"),
        ({"message": "\ud800"}, "a program cannot take an argument given for 'bash'"),
        ({"message": "x" * 200_000}, "the program 'bash' cannot be started: Argument list too long"),
    ],
)
def test_arguments_that_cannot_be_handed_over_are_named(arguments: dict[str, Any], words: str) -> None:
    (failed,) = run(EACH, arguments)
    assert isinstance(failed, Failed)
    assert failed.message.startswith(words)


@pytest.mark.parametrize(
    ("argv", "arguments", "expected"),
    [
        (["--flag", "{a}"], {"a": "x y"}, ["--flag", "x y"]),
        (["--a={a}", "{b}"], {"a": "1"}, ["--a=1"]),
        (["{a}{b}"], {"a": "1", "b": "2"}, ["12"]),
        (["{a}"], {"a": None}, []),
        (["{n}", "{yes}", "{o}"], {"n": 1.5, "yes": True, "o": {"k": "ä"}}, ["1.5", "true", '{"k": "ä"}']),
        (["{files}", "-l={files}"], {"files": ["a b", "c", 1]}, ["a b", "c", "1", '-l=["a b", "c", 1]']),
        (["{{print}}", "{ }", "{"], {}, ["{print}", "{ }", "{"]),
        (["{a}"], {"a": "{b}", "b": "no"}, ["{b}"]),
        ([], {"a": "1"}, []),
    ],
)
def test_an_argv_is_filled_element_by_element(argv: list[str], arguments: dict[str, Any], expected: list[str]) -> None:
    assert fill_argv(argv, arguments) == expected
    assert output_of(EACH, arguments, argv) == "".join(f"[{one}]" for one in expected)


@settings(max_examples=25, deadline=None)
@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])))
def test_any_text_reaches_the_program_as_it_is(text: str) -> None:
    """T13.3: Unicode arguments; no character has a meaning for a shell."""
    assert output_of(EACH, {"message": text}) == f"[{text}]"
    assert output_of(EACH, {"value": text}, ["{value}"]) == f"[{text}]"


@pytest.mark.parametrize("source", [EACH, "@bash_command echo", "echo $1", 'echo "$@"'])
def test_metacharacters_are_never_interpreted(source: str, tmp_path: Path) -> None:
    """X-16: a canary file that no argument can create."""
    canary = tmp_path / "canary"
    hostile = METACHARACTERS.format(canary)
    for arguments, argv in (({"message": hostile}, None), ({"value": hostile}, ["--x={value}", "{value}"])):
        assert run(source, arguments, argv)[-1] == Done()
    for word in ("$(touch", "`touch", ";", "|", "&&"):
        run(source, {"args": f"{word} {canary}"})
    assert not canary.exists()


def test_stdin_is_the_input_and_empty_without_one() -> None:
    """V-F12: only `input` is passed."""
    assert output_of("cat", {"input": "Grüße\n世界"}) == "Grüße\n世界"
    assert output_of("cat; echo end") == "end\n"
    assert output_of("head -c 1", {"input": "x" * 1_000_000}) == "x"


def test_large_input_and_output_pass_through() -> None:
    """T13.2: ten megabytes each way."""
    large = "0123456789" * 1_000_000
    assert output_of("cat", {"input": large}) == large


def test_characters_cut_between_pieces_stay_whole() -> None:
    assert output_of("printf '\\xe4'; sleep 0.1; printf '\\xb8\\x96'") == "世"
    assert output_of("printf 'a\\xffb'; sleep 0.1; printf '\\xe4'") == "a\ufffdb\ufffd"


def test_output_comes_as_it_is_written(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    script = shell('echo first; read line < "$1"; echo "$line"')
    running = activate(script, call_of({"message": str(gate)}, target={}))
    assert next(running) == Text("first\n")
    gate.write_text("second\n")
    assert [event for event in running if event != Pause()] == [Text("second\n"), Done()]


def test_binary_output_is_one_content() -> None:
    """T5.8: bytes -> base64."""
    png = "printf '\\x89PNG\\r\\n\\x1a\\n'; sleep 0.1; printf '\\0\\1'"
    (image, _) = run(png)
    assert isinstance(image, Content)
    assert image.block["mimeType"] == "image/png"
    assert b64decode(image.block["data"]) == b"\x89PNG\r\n\x1a\n\0\1"
    (drop, _) = run("printf '\\xff'; sleep 0.1; printf '\\xd8\\xff\\xe0'")
    assert isinstance(drop, Content)
    assert drop.block["mimeType"] == "image/jpeg"
    (blob, _) = run("printf 'a\\0b'")
    assert isinstance(blob, Content)
    assert b64decode(blob.block["resource"]["blob"]) == b"a\0b"


@pytest.mark.parametrize("text", ["GIF", "RIFF and raff", "I", "ID", "Ogre"])
def test_text_that_begins_like_an_image_is_text(text: str) -> None:
    assert output_of("cat", {"input": text}) == text
    assert output_of('printf "%s" "$1"; sleep 0.1; echo', {"message": text}) == text + "\n"


def test_stderr_becomes_log_lines() -> None:
    seen = run("echo out; printf 'one\\ntwo' >&2")
    assert sorted(seen, key=repr) == sorted(
        [Text("out\n"), Log("warning", "one", "stderr"), Log("warning", "two", "stderr"), Done()], key=repr
    )


def test_stderr_without_line_breaks_is_not_hoarded() -> None:
    seen = run("head -c 1000000 /dev/zero | tr '\\0' x >&2")
    lines = [event.data for event in seen if isinstance(event, Log)]
    assert "".join(lines) == "x" * 1_000_000
    assert max(map(len, lines)) < 200_000


@pytest.mark.parametrize("code", [1, 3, 126, 255])
def test_another_exit_code_than_0_fails_with_it_and_keeps_the_output(code: int) -> None:
    """V-F13, SUB-C5: non-zero exit -> isError, exit code reported, stderr appended."""
    seen = run(f"echo half; echo bad luck >&2; exit {code}")
    assert Text("half\n") in seen
    assert seen[-1] == Failed(f"tool ended with exit code {code}: bad luck")


def test_a_failure_carries_its_exit_code_and_only_the_tail_of_a_long_stderr() -> None:
    handler = shell("seq 5000 >&2; exit 7")
    with pytest.raises(ToolFailed) as failure:
        list(handler(call_of()))
    assert failure.value.data == {"exitCode": 7}
    assert failure.value.message.endswith("4999\n5000")
    assert len(failure.value.message) < 2100


def test_death_by_signal_is_reported() -> None:
    assert run("kill -9 $$") == [Failed("tool was ended by signal 9 (Killed)")]


def test_the_interpreter_of_the_shebang_runs_the_script() -> None:
    source = "#!/usr/bin/env python3\nimport sys\nprint(sys.argv[1:], sys.stdin.read())"
    assert output_of(source, {"args": "a b", "input": "in"}) == "['a', 'b'] in\n"
    assert run("#!/no/such/interpreter\n") == [
        Failed("the program '/no/such/interpreter' is not installed here (exit code 127)")
    ]
    assert run("#!/etc\n") == [Failed("the program '/etc' may not be run (exit code 126)")]


def test_a_child_sees_no_setting_and_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """X-16: environment allow-list."""
    for name in ("PATCHBAY_PORT", "AWS_SECRET_ACCESS_KEY", "PYTHONPATH", "LD_PRELOAD_X", "BASH_ENV"):
        monkeypatch.setenv(name, "/nonexistent/secret")
    monkeypatch.setenv("LANG", "C.UTF-8")
    lines = dict(line.split("=", 1) for line in output_of("@bash_command env").splitlines())
    assert lines.keys() <= {"PATH", "HOME", "USER", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "PATCHBAY_CALL"}
    assert lines["LANG"] == "C.UTF-8"


def test_programs_are_found_without_a_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PATH")
    assert output_of("@bash_command echo", {"args": "x"}) == "x\n"


def test_each_call_has_an_empty_folder_of_its_own_that_goes_away() -> None:
    first = output_of("pwd; ls -A; echo x > file").splitlines()
    second = output_of("pwd; ls -A").splitlines()
    assert len(first) == len(second) == 1
    assert first != second
    assert not Path(first[0]).exists()
    assert not Path(first[0]).parent.exists()


def test_a_sleeping_script_is_timed_out_and_killed() -> None:
    """T12.5: a shell tool that sleeps."""
    seen = run("echo $$; sleep 60", left=0.5)
    assert isinstance(seen[0], Text)
    assert isinstance(seen[-1], Failed)
    assert seen[-1].message.startswith("timed out after")
    assert not alive(int(seen[0].text))


@pytest.mark.parametrize("deaf", ["", "trap '' TERM; "])
def test_the_whole_group_is_killed_with_grandchildren_that_ignore_sigterm(deaf: str) -> None:
    """X-15: process group killed."""
    source = f"{deaf}bash -c '{deaf.replace(chr(39), chr(34))}echo $$; sleep 60 & echo $!; wait' & echo $$; wait"
    running, pids = activate(shell(source), call_of(target={})), ""
    while pids.count("\n") < 3:
        event = next(running)
        pids += event.text if isinstance(event, Text) else ""
    running.close()
    until(lambda: not any(alive(int(pid)) for pid in pids.split()))


def test_background_processes_of_a_script_are_killed() -> None:
    pid = int(output_of("sleep 60 & echo $!"))
    until(lambda: not alive(pid))
    pid = int(output_of("sleep 60 > /dev/null 2>&1 & echo $!"))
    until(lambda: not alive(pid))


def test_a_background_writer_may_finish_its_last_words() -> None:
    assert output_of("exec > >(sleep 0.1; cat); echo words") == "words\n"


def test_a_child_that_closed_its_output_is_waited_for() -> None:
    (failed,) = run("exec >&- 2>&-; sleep 0.2; exit 4")
    assert failed == Failed("tool ended with exit code 4")
    (timed_out,) = run("exec >&- 2>&-; sleep 60", left=0.4)
    assert isinstance(timed_out, Failed)
    assert timed_out.message.startswith("timed out")


def test_a_cancelled_call_is_noticed_soon() -> None:
    """X-19: cancel handle."""
    call = call_of(target={})
    running = activate(shell("echo $$; sleep 60"), call)
    first = next(running)
    assert isinstance(first, Text)
    call.cancelled.set("enough")
    assert [event for event in running if event != Pause()] == [Failed("cancelled: enough")]
    assert not alive(int(first.text))


def test_a_silent_child_pauses() -> None:
    assert list(activate(shell("sleep 0.5"), call_of(target={}))) == [Pause(), Done()]


def test_a_quick_child_does_not_pause() -> None:
    """A Pause selects a stream, so a quick answer must not contain one."""
    assert not any(isinstance(event, Pause) for event in activate(shell("printf '\\0'"), call_of(target={})))


def test_an_endless_binary_output_is_timed_out() -> None:
    (failed,) = run("while printf '\\0'; do sleep 0.02; done", left=0.6)
    assert isinstance(failed, Failed)
    assert failed.message.startswith("timed out")


def test_endless_output_is_cut_at_the_cap() -> None:
    """`yes` is stopped with a clear sentence."""
    last: Event | None = None
    for event in activate(shell("yes"), call_of(left=60.0, target={})):
        last = event
    assert last == Failed("bash was stopped: it wrote more than 67108864 bytes")


def test_no_file_stays_open_however_a_call_ends() -> None:
    run("echo warm")
    before = open_files()
    for _ in range(5):
        run("echo x", {"input": "y"})
        run("exit 1")
        run("@bash_command no-such-program")
        running = activate(shell("echo a; sleep 60"), call_of(target={}))
        next(running)
        running.close()
    assert open_files() <= before


def test_calls_of_one_script_do_not_disturb_each_other() -> None:
    """T13.4: concurrent requests."""
    handler = shell('read line; echo "$1 $line"')
    runs = [
        activate(handler, Call("tool", {}, {"args": str(n), "input": f"i{n}\n"}, call_of().deadline)) for n in range(5)
    ]
    for running in runs:
        next(running)
    assert [list(running)[-1] for running in runs] == [Done()] * 5
