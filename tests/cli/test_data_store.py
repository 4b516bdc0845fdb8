"""The store of a command: what prevents its use is a sentence, and a reader that is gone is not an error."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchbay import exit_codes
from patchbay.cli.data_store import errors_as_sentence
from patchbay.errors import ConfigError
from tests.cli.workspace import Workspace


@pytest.mark.parametrize("problem", [OSError(13, "Permission denied"), ConfigError("--data", "", "expected a folder")])
def test_a_problem_of_the_data_folder_is_wrong_usage(problem: Exception) -> None:
    with pytest.raises(SystemExit) as ended, errors_as_sentence():
        raise problem
    assert ended.value.code == exit_codes.USAGE


@pytest.mark.process
def test_a_reader_that_is_gone_ends_the_command_without_a_sentence(workspace: Workspace) -> None:
    """`patchbay key list | true` is not a problem of the data folder."""
    for number in range(3):
        assert workspace.quick(f"patchbay key new robot{number}").code == 0
    ended = workspace.run("(while true; do patchbay key list || { echo $? >&2; break; }; done) | true")
    assert ended.err.strip() == str(exit_codes.UNREAD)
    assert Path(workspace.folder / "data").is_dir()
