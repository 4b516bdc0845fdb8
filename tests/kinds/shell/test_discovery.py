"""Shell definitions: one tool, its texts, and how they differ from Python."""

from __future__ import annotations

import pytest
from jsonschema import Draft202012Validator

from patchbay.errors import ConfigError
from patchbay.kinds.discovery import MAX_DEFINITION_BYTES, detect_kind, discover

WRONG: list[object] = [{"args": 1}, {"input": None}, {"other": ""}, []]


def test_a_shell_definition_is_exactly_one_tool_called_like_the_server() -> None:
    """T11.2, VWR-23, V-C6: a string for the command line, one for the standard input, both optional."""
    (only,) = discover("shell", "jq", b"@bash_command jq\n").descriptors
    assert (only.kind, only.name, only.source, dict(only.target)) == ("tool", "jq", "discovered", {})
    assert (only.wire["name"], only.wire["description"]) == ("jq", "Run jq")
    schema = only.wire["inputSchema"]
    Draft202012Validator.check_schema(schema)
    check = Draft202012Validator(schema)
    assert all(check.is_valid(fine) for fine in ({}, {"args": "."}, {"args": ".", "input": "{}"}))
    assert not any(check.is_valid(wrong) for wrong in WRONG)


def test_functions_in_a_script_are_not_tools_of_their_own() -> None:
    """T11.2."""
    script = b"#!/bin/sh\nfirst() { echo 1; }\nsecond() { echo 2; }\nfirst; second\n"
    assert [each.name for each in discover("shell", "both", script).descriptors] == ["both"]


@pytest.mark.parametrize(
    ("script", "description"),
    [
        ("#!/bin/sh\n# Say what\n# was said.\n#\n# Long story.\necho\n", "Say what was said."),
        ("@bash_command date\n# Tell the time.\n", "Tell the time."),
        ("# No shebang here.\nls\n", "No shebang here."),
        ("#!/bin/sh\r\n\r\n# shellcheck disable=SC2086\r\n## Loud ##\r\nls\r\n", "Loud"),
        ("#!/bin/sh\nls\n# Too late.\n", "Run srv"),
        ("@bash_command   grep \n", "Run grep"),
        ("", "Run srv"),
    ],
)
def test_the_opening_comment_describes_the_tool(script: str, description: str) -> None:
    """VWR-23: its first paragraph, or else the command."""
    found = discover("shell", "srv", script.encode())
    assert found.descriptors[0].wire["description"] == found.description == description


@pytest.mark.parametrize(
    ("script", "line", "message"),
    [
        (b"@bash_command \nls", 1, "name of a command"),
        (b"#!/bin/sh\necho \0", 2, "NUL"),
        (b"#!/bin/sh\n\n# \xff", 3, "UTF-8"),
        (b"#" * (MAX_DEFINITION_BYTES + 1), 1, "at most"),
    ],
)
def test_a_script_that_cannot_be_read_is_refused_with_its_line(script: bytes, line: int, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as refused:
        discover("shell", "srv", script)
    assert refused.value.path == f"line {line}"


@pytest.mark.parametrize(
    ("first", "kind"),
    [
        ("@bash_command echo", "shell"),
        ("\ufeff@bash_command echo", "shell"),
        ("@bash_commander\ndef f(): ...", "python"),
        ("#!/bin/sh", "shell"),
        ("#! /bin/sh -e\r", "shell"),
        ("#!/usr/bin/bash", "shell"),
        ("#!/usr/bin/env bash", "shell"),
        ("#!/usr/bin/env -S LANG=C dash -e", "shell"),
        ("#!/usr/local/bin/zsh", "shell"),
        ("#!/usr/bin/env python3", "python"),
        ("#!/home/me/sh/python", "python"),
        ("#!/usr/bin/fish.py", "python"),
        ("#!/usr/bin/env flash", "python"),
        ("\n#!/bin/sh", "python"),
        ("def main(): ...", "python"),
        ("", "python"),
        ("#!" + "/" * 100_000, "python"),
    ],
)
def test_the_first_line_decides_the_language(first: str, kind: str) -> None:
    """V-F10: Python unless a shell is named."""
    assert detect_kind(first.encode() + b"\nrest\n") == kind


def test_the_language_of_bytes_that_are_not_text_is_python() -> None:
    assert detect_kind(b"\xff\xfe\0") == "python"
