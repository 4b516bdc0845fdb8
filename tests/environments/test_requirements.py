"""What a definition requires, and what is wrong with its block of requirements."""

from __future__ import annotations

import pytest

from patchbay.environments.requirements import PYTHON, read_script_block, requirements_of
from patchbay.errors import ConfigError
from tests.environments.wheels import block


def packages(source: str, **config: object) -> tuple[str, ...]:
    found = requirements_of(source.encode(), "mine", config)
    return found.packages if found is not None else ()


def fault(source: str, **config: object) -> str:
    with pytest.raises(ConfigError) as caught:
        requirements_of(source.encode(), "mine", config)
    return f"{caught.value.path}: {caught.value.expected}"


def test_requirements_of_block_and_configuration_are_one_sorted_set_in_normal_form() -> None:
    source = block("Requests[socks] >= 2, <3", "PyYAML")
    assert packages(source, requirements=["pyyaml", "anyio ; python_version > '3'"]) == (
        'anyio; python_version > "3"',
        "pyyaml",
        "requests[socks]<3,>=2",
    )
    assert packages("def main(): return 1") == () == packages(block())


def test_equal_requirements_have_one_key_and_others_another_one() -> None:
    one, same, other = (
        requirements_of(each.encode(), "mine", {})
        for each in (block("a", "B>=1"), "x = 1\n" + block("b >= 1", "a"), block("a", "b>=2"))
    )
    assert one is not None and same is not None and other is not None
    assert one.key == same.key != other.key and one.python == PYTHON


def test_the_block_is_read_as_the_specification_says() -> None:
    source = '"""A tool."""\r\n# /// script\r\n# dependencies = [\r\n#   "a",\r\n#\r\n# ]\r\n# [tool.x]\r\n# ///\r\n'
    found = read_script_block(source.encode(), "mine")
    assert found is not None and (found.dependencies, found.line) == (("a",), 2)
    assert read_script_block(b"# /// other\n# a = 1\n# ///\n", "mine") is None
    assert read_script_block(b'TEXT = """\n# /// script\nwithout an end\n"""\n', "mine") is None


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("x = 1\n# /// script\n# dependencies = []\n", "line 2: a block of requirements that cannot be read: expected"),
        ("#/// script\n# dependencies = []\n# ///\n", "line 1: a block of requirements that cannot be read"),
        ("# /// script\n# a = 1\n# dependencies = [ [\n# ///\n", "line 3: the block # /// script is not valid TOML"),
        ("# /// script\n# a = 1\n# dependencies = x\n# ///\n", "line 3: the block # /// script is not valid TOML"),
        ("# /// script\n# dependencies = [1]\n# ///\n", 'line 1: expected dependencies = ["requests>=2", ...]'),
        ("# /// script\n# dependencies = [\n#  'a',\n#  'b=1',\n# ]\n# ///\n", "line 4: expected a package such as"),
        ("# /// script\n# requires-python = 3\n# ///\n", 'line 1: expected requires-python = ">=3.11"'),
        (block("a", python="<3"), 'line 1: requires-python = "<3" excludes the Python'),
        (block("a", python="three"), "line 1: expected requires-python = \">=3.11\"; got 'three'"),
        (block("a") + "\n" + block("b"), "line 5: expected one block # /// script; it has two"),
    ],
)
def test_a_wrong_block_is_an_error_with_line_and_expected_form(source: str, expected: str) -> None:
    assert fault(source).startswith(expected)


def test_a_python_that_the_hub_does_not_have_is_an_error_with_the_command_that_starts_the_hub_with_it() -> None:
    """Issue 17, part 1."""
    assert fault(block("a", python=">=3.99")).endswith(
        "with such a Python: uvx --python '>=3.99' --from patchbay-hub patchbay"
    )


def test_a_wrong_requirement_of_a_configuration_is_named_by_its_place() -> None:
    assert fault("", requirements=["a", "-r x.txt"]).startswith("requirements[1]: expected a package such as")
