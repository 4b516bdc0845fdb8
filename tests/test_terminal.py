"""Whether text for people has colours: what the variables of the environment decide."""

from __future__ import annotations

import pytest

from patchbay.terminal import choose_color


@pytest.mark.parametrize(
    ("environ", "chosen"),
    [
        ({}, None),
        ({"NO_COLOR": "", "FORCE_COLOR": ""}, None),
        ({"TERM": "xterm"}, None),
        ({"TERM": "dumb"}, False),
        ({"NO_COLOR": "0"}, False),
        ({"FORCE_COLOR": "1"}, True),
        ({"FORCE_COLOR": "1", "TERM": "dumb"}, True),
        ({"FORCE_COLOR": "0"}, False),
        ({"FORCE_COLOR": "false"}, False),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, False),
    ],
)
def test_the_environment_decides_about_colours(environ: dict[str, str], chosen: bool | None) -> None:
    """None is "on a terminal only"; NO_COLOR decides first."""
    assert choose_color(environ) is chosen
