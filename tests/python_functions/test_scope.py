"""Names of a module, read from its syntax tree."""

from __future__ import annotations

from patchbay.kinds.discovery import discover


def test_a_function_that_decorates_another_one_is_a_helper_and_not_a_tool() -> None:
    """50: with and without arguments; a decorated function and one that decorates nothing stay tools."""
    source = (
        "def plain(f):\n    return f\n"
        "def timed(seconds):\n    return plain\n"
        "@plain\ndef one() -> int:\n    return 1\n"
        "@timed(3)\nasync def two() -> int:\n    return 2\n"
        "def three() -> int:\n    return 3\n"
    )
    found = discover("python", "s", source.encode())
    assert [each.name for each in found.descriptors] == ["one", "two", "three"]
    assert found.problems == ()
