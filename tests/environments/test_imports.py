"""Imports without a module are found in the text of a definition, with the lines to add."""

from __future__ import annotations

import ast
from pathlib import Path
from textwrap import dedent

from patchbay.environments.imports import foreign_imports, missing_imports
from patchbay.environments.requirements import read_script_block
from tests.environments.wheels import block


def imports(source: str) -> dict[str, int]:
    return foreign_imports(ast.parse(dedent(source)))


def test_imports_at_any_level_are_found_and_optional_ones_are_not() -> None:
    source = """
        import os, absent_a.inner
        from absent_b import x
        def main():
            import absent_c
            try:
                import optional_a
            except ImportError:
                import absent_d
            with suppress(ModuleNotFoundError):
                import optional_b
            if TYPE_CHECKING:
                import optional_c
            if sys.version_info < (3, 11):
                import optional_d
            try:
                import absent_e
            except ValueError:
                pass
        import patchbay
    """
    assert imports(source) == {"absent_a": 2, "absent_b": 3, "absent_c": 5, "absent_d": 9, "absent_e": 17}


def test_a_missing_module_gets_the_block_to_add_and_a_guess_is_called_one() -> None:
    found = missing_imports(imports("import PIL.Image\nimport absent_x\nimport flask"), None, (), None)
    assert [(each.where, each.line) for each in found] == [("import PIL", 1), ("import absent_x", 2)]
    assert {each.fix for each in found} == {'# /// script\n# dependencies = ["pillow", "absent_x"]\n# ///'}
    assert "guess" not in found[0].reason and "is a guess" in found[1].reason


def test_a_block_that_exists_is_given_whole_with_the_missing_package() -> None:
    present = read_script_block(block("a>=1", python=">=3.11").encode(), "mine")
    [found] = missing_imports({"bs4": 7}, present, (), None)
    assert found.fix == "\n".join(
        ["# /// script", '# requires-python = ">=3.11"', '# dependencies = ["a>=1", "beautifulsoup4"]', "# ///"]
    )
    assert "change the block" in found.reason


def test_a_module_of_the_environment_is_not_missing(tmp_path: Path) -> None:
    (tmp_path / "absent_y.py").touch()
    assert missing_imports({"absent_y": 1}, None, (), tmp_path) == ()
    assert missing_imports({"absent_y": 1}, None, (), None) != ()


def test_a_required_package_without_that_module_is_not_required_once_more() -> None:
    [found] = missing_imports({"absent_z": 1}, None, ("Absent-Z>=2",), None)
    assert found.fix is None and "has no module absent_z" in found.reason
