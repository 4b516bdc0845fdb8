"""What a record of a call shows to callers other than the operator."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from patchbay.access.principals import LOCAL_ID
from patchbay.activity.records import Record


@pytest.mark.parametrize(("principal", "is_shown"), [("key:ann", False), (LOCAL_ID, True)])
def test_other_callers_learn_no_client_and_no_trace_of_a_call(principal: str, is_shown: bool) -> None:
    """On a personal hub everybody is one principal, so that nothing belongs to others."""
    own: dict[str, Any] = {"client": "editor 1.2", "session": "abc", "trace": "0af7651916cd43dd8448eb211c80319c"}
    values: dict[str, Any] = {row.name: None for row in fields(Record)} | own | {"moments": (), "raised": ()}
    shown = Record(**values | {"principal": principal, "name": "say", "digest": "d"}).for_strangers()
    assert {name: getattr(shown, name) for name in own} == (own if is_shown else dict.fromkeys(own))
