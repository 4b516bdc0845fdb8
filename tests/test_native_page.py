"""docs/native.md: its examples go as they are written, and it names everything there is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from patchbay.protocol.native.introspection import METHODS
from patchbay.views import native
from patchbay.wire.endpoints.native import PATH
from patchbay.wire.replies.accept import NDJSON
from tests.checkout import ROOT
from tests.hubs import Hub

PAGE = (ROOT / "docs" / "native.md").read_text("utf-8")
EXAMPLES = re.findall(r"```rpc\n(.+?)```", PAGE, re.DOTALL)


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    hub = Hub(tmp_path_factory.mktemp("page"))
    yield hub
    hub.close()


def plain(message: Any) -> Any:
    """A message without what differs each time: subscription ids and the hash."""
    if "method" in message:
        message["params"]["subscription"] = 0
        message["params"]["result"]["plexus_hash"] = ""
    elif type(message.get("result")) is int:
        message["result"] = 0
    return message


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_goes_as_it_is_written(hub: Hub, example: str) -> None:
    """SUB-4, SUB-40: the page can be relied on."""
    asked, *told = example.strip().split("\n")
    headers = {"Content-Type": "application/json", "Accept": NDJSON, "Host": "localhost"}
    response = hub.client.post(PATH, data=asked.removeprefix("> "), headers=headers)
    said = [plain(orjson.loads(line)) for line in response.get_data().split(b"\n") if line]
    assert said == [plain(orjson.loads(line.removeprefix("< "))) for line in told]


def test_the_page_has_examples_and_names_every_method_type_and_form() -> None:
    assert len(EXAMPLES) >= 5
    types = ("data", "progress", "error", "guidance", "done")
    forms = (native.TEXT, native.BLOCK, native.JSON, NDJSON, "text/event-stream")
    assert [name for name in (*METHODS, *types, *forms) if f"`{name}`" not in PAGE] == []
