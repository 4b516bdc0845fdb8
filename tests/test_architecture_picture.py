"""The picture of the architecture is drawn from the present imports."""

from __future__ import annotations

import pytest

from scripts.architecture_picture import PICTURE, imports_between, picture, rooms_by_floor
from tests.source_modules import Module, read
from tests.test_layers import FLOORS


@pytest.mark.slow
def test_the_picture_is_current() -> None:
    assert PICTURE.read_text("utf-8") == picture(), "run python -m scripts.architecture_picture"


def test_every_room_of_the_package_is_drawn_on_its_floor() -> None:
    rooms = rooms_by_floor([module for module in read("patchbay/**/*.py") if module.place])
    assert "protocol" in rooms[FLOORS["protocol"]]
    assert list(rooms) == sorted(rooms, reverse=True)


def test_imports_inside_a_room_are_not_counted() -> None:
    module = Module(
        "patchbay/wire/endpoints/mcp.py", "from patchbay.wire import sse\nfrom patchbay.errors import Refused"
    )
    assert dict(imports_between([module])) == {("wire", "errors"): 1}
