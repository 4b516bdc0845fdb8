"""The servers of the boot image, end to end."""

from __future__ import annotations

import re
from collections.abc import Iterator

import orjson
import pytest

from tests.hubs import MODERN, Hub
from tests.waiting import until

VERSIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", MODERN]


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    hub = Hub(tmp_path_factory.mktemp("hub"))
    yield hub
    hub.close()


@pytest.mark.parametrize("version", VERSIONS)
def test_echo_gives_back_its_message(hub: Hub, version: str) -> None:
    """T8.2."""
    assert hub.call("echo", "echo", {"message": "a 'b' $(c) \"d\" 🐴"}, version).text.strip() == "a 'b' $(c) \"d\" 🐴"


@pytest.mark.parametrize("version", VERSIONS)
def test_markdown_becomes_html_without_scripts(hub: Hub, version: str) -> None:
    """T8.3, V-C5: the static tool `convert` runs `main`."""
    html = hub.call("markdown", "convert", {"markdown": "# Hi\n\n*you*\n\n<script>alert(1)</script>"}, version).text
    assert "<h1>Hi</h1>" in html and "<em>you</em>" in html
    assert "<script" not in html


@pytest.mark.parametrize("version", VERSIONS)
def test_jq_answers_a_query(hub: Hub, version: str) -> None:
    """T8.4."""
    answer = hub.call("jq", "jq", {"filter": ".a[1]", "input": {"a": [1, {"b": 2}]}}, version)
    assert not answer.result.get("isError"), answer.text
    assert orjson.loads(answer.text.strip()) in ({"b": 2}, [{"b": 2}])


@pytest.mark.parametrize("version", VERSIONS)
def test_date_gives_the_date(hub: Hub, version: str) -> None:
    """T8.5."""
    for name in ("args", "command_args"):  # 34.19: the plan names both
        said = hub.call("date", "date", {name: "+%Y-%m-%d"}, version).text.strip()
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", said)


@pytest.mark.parametrize("name", ["args", "command_args", "message"])
def test_no_way_to_run_a_tool_goes_around_its_schema(hub: Hub, name: str) -> None:
    """THREATS 1.6: `date` takes a format, and nothing that would make it read a file."""
    bad = "--file=/etc/hostname"
    host = {"Host": "localhost"}
    assert hub.call("date", "date", {name: bad}).result["isError"] is True
    assert hub.modern("", "tools/call", {"name": "date__date", "arguments": {name: bad}}).result["isError"] is True
    assert "error" in hub.legacy("echo", "resources/read", {"uri": f"server://date/date?{name}={bad}"}).last
    assert hub.client.get(f"/date/date?{name}={bad}", headers=host).status_code in (400, 422)
    source = f"def go(context):\n    return context.call('date', 'date', {name}={bad!r})\n\n\n"
    source += f"def read(context):\n    return context.read('server://date/date?{name}={bad}')\n\n\n"
    source += f"def lead():\n    return {{'redirect': '/date/date?{name}={bad}'}}\n"
    (hub.servers / "around.py").write_text(source)
    until(lambda: "result" in hub.call("around", "go").last, "the definition is live")
    assert "do not fit" in str(hub.call("around", "go").last)
    assert hub.call("around", "read").result["isError"] is True
    assert hub.call("around", "lead").result["isError"] is True


def test_the_hub_describes_itself(hub: Hub) -> None:
    tools = {tool["name"] for tool in hub.legacy("mcp", "tools/list").result["tools"]}
    assert {"list_servers", "describe_server"} <= tools
    assert "markdown" in hub.call("mcp", "list_servers").text
    assert "inputSchema" in hub.call("mcp", "describe_server", {"name": "jq"}).text


def test_the_readonly_boot_answers_and_changes_nothing(tmp_path_factory: pytest.TempPathFactory) -> None:
    """T10.4, X-17, V-F18: only tools that say they are read-only are offered."""
    hub = Hub(tmp_path_factory.mktemp("readonly"), {"mine.py": "def f() -> str:\n    return 'x'\n"}, boot="readonly")
    try:
        assert hub.call("echo", "echo", {"message": "still here"}).text.strip() == "still here"
        assert hub.call("mine", "f").status == 404
        for tool in hub.legacy("jq", "tools/list").result["tools"]:
            assert tool["annotations"]["readOnlyHint"] is True
        host = {"Host": "localhost"}
        assert hub.client.put("/variables/mcps", data="{}", headers=host).status_code == 401
        hub.as_operator()
        assert hub.client.put("/variables/mcps", data="{}", headers=host).status_code == 405
        assert hub.client.put("/cid/bafkqaatine", data="hi", headers=host).status_code == 405
        assert hub.client.get("/mcp", headers=host | {"Accept": "text/html"}).status_code == 200
        capabilities = hub.legacy("echo", "initialize", {"protocolVersion": "2025-11-25"}).result["capabilities"]
        assert capabilities["tools"] == {"listChanged": False}
    finally:
        hub.close()


def test_a_pinned_address_always_serves_the_old_version(tmp_path_factory: pytest.TempPathFactory) -> None:
    """DESIGN section 4: by the CID of the version and by that of the definition, beside the moving name."""
    hub = Hub(tmp_path_factory.mktemp("pins"), {"v.py": "def which() -> str:\n    return 'first'\n"})
    try:
        server = hub.catalogue.find("v")
        listed = hub.modern(f"v@{server.version}", "tools/list").body
        (hub.servers / "v.py").write_text("def other() -> str:\n    return 'second'\n")
        until(lambda: hub.call("v", "other").messages and not hub.call("v", "other").result.get("isError"), "live")
        assert hub.call(f"v@{server.version}", "which").text == "first"
        assert hub.call(f"v@{server.definition}", "which").text == "first"
        assert hub.modern(f"v@{server.version}", "tools/list").body == listed
        stranger = hub.catalogue.store.blobs.put(b"def evil() -> str:\n    return 'x'\n")
        assert hub.call(f"v@{stranger}", "evil").status == 404
        (hub.servers / "v.py").unlink()
        until(lambda: hub.call("v", "other").status == 404, "the server is withdrawn")
        assert hub.call(f"v@{server.version}", "which").status == 404, "a withdrawn server is the operator's only"
        hub.as_operator()
        assert hub.call(f"v@{server.version}", "which").text == "first"
        assert hub.call(f"v@{stranger}", "evil").status == 404
    finally:
        hub.close()
