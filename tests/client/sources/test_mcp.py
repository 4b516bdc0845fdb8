"""The discovery contract as a seam: which source serves an address, and sources that others have installed."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from patchbay.client.addresses.targets import AddressError
from patchbay.client.addresses.variables import ProfileError
from patchbay.client.contracts.canonical_json import ContractError
from patchbay.client.contracts.contract import ValidationResult, store_snapshot
from patchbay.client.errors import ServerTimeout
from patchbay.client.profiles.layouts import Profile, parse_profile
from patchbay.client.source import Source, SourceContext
from patchbay.client.sources import make_sources
from patchbay.errors import InvalidParams
from patchbay.events import Log
from patchbay.stores.memory import MemoryStore
from tests.client.peers import UV, open_context
from tests.client.reaching import scripted

TIME = "mcp+uvx://mcp-server-time/mcp-server-time"
MAIL = '''
"""Discovery for mailboxes, from another package."""
import mailbox
from contextlib import closing
from patchbay.client.source import Source

class MailSource(Source):
    name = "mail"
    schemes = ("mbox",)

    def reads(self, address, means, arguments=None):
        path, _, query = address.removeprefix("mbox:").partition("?")
        wanted = query.removeprefix("from=")
        with closing(mailbox.mbox(path, create=False)) as box:
            for one in box:
                if wanted in one["From"]:
                    yield {"from": one["From"], "subject": one["Subject"], "labels": one["X-Labels"].split(",")}

    def explores(self, address, means):
        labels = sorted({label for one in self.reads(address, means) for label in one["labels"]})
        found = {"labels": labels, "filters": ["from"], "search_operators": ["from="]}
        return {"plugin": "mail", "service": address, "version_hash": None, "discoverable": found}
'''
PROJECT = """
[project]
name = "patchbay-mail-source"
version = "1.0"
[project.entry-points."patchbay.sources"]
mail = "mail_source:MailSource"
broken = "mail_source:Nothing"
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"
[tool.setuptools]
py-modules = ["mail_source"]
"""
MESSAGES = """From a@x Thu Jan  1 00:00:00 2026
From: ann@x
Subject: one
X-Labels: work,urgent

text

From b@x Thu Jan  1 00:00:00 2026
From: bob@x
Subject: two
X-Labels: home

text
"""


@pytest.fixture
def context(tmp_path: Path) -> Iterator[SourceContext]:
    with open_context(tmp_path) as found:
        yield found


def saved(context: SourceContext, plugin: str, name: str, **meta: Any) -> None:
    context.get_profiles(plugin).save(parse_profile(name, {"plugin": plugin, **meta}, {}, "the test"))


@pytest.mark.parametrize(
    ("address", "name"),
    [
        (TIME, "mcp"),
        ("mcp+docker://x", "mcp"),
        ("mcp://preset", "mcp"),
        ("https://example.org/mcp", "mcp"),
        ("/mcp/echo", "mcp"),
        ("@unknown/tool", "mcp"),
        ("https://example.org/openapi.json", "http"),
        ("openapi+https://example.org", "http"),
        ("s3://bucket/key", "s3"),
        ("gs://bucket/key", "objects"),
        ("memory://x", "objects"),
    ],
)
def test_the_source_is_found_by_the_address(context: SourceContext, address: str, name: str) -> None:
    """JN-53: one set of commands for all."""
    assert make_sources().find(address, context).name == name


def test_every_source_has_all_methods_of_the_contract() -> None:
    """JN-53."""
    sources = make_sources()
    assert {"mcp", "http", "s3", "objects"} <= set(sources.list_names())
    assert all(isinstance(sources.get(name), Source) for name in ("mcp", "http", "s3", "objects"))


def test_the_source_of_a_profile_is_its_plugin(context: SourceContext) -> None:
    """JN-64."""
    saved(context, "http", "api", connection={"base_url": "https://h"})
    saved(context, "s3", "data", connection={})
    sources = make_sources()
    assert [sources.find(address, context).name for address in ("@api/x?y=1", "@data")] == ["http", "s3"]
    saved(context, "s3", "api", connection={})
    with pytest.raises(ProfileError, match="expected one profile of this name; http, s3 have one each"):
        sources.find("@api", context)


def test_an_unknown_address_is_an_error_that_names_the_schemes(context: SourceContext) -> None:
    with pytest.raises(AddressError, match=r"not an address: 'ftp://x'; expected .*file:, gcs:, gs:.*mcp:.*s3:"):
        make_sources().find("ftp://x", context)


@pytest.fixture(scope="module")
def mail_package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a package of a third party, built and installed with its entry points."""
    project, site = tmp_path_factory.mktemp("project"), tmp_path_factory.mktemp("site")
    (project / "pyproject.toml").write_text(PROJECT)
    (project / "mail_source.py").write_text(MAIL)
    command = [UV, "pip", "install", "--quiet", "--python", sys.executable, "--target", str(site), str(project)]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    return site


@pytest.fixture
def mail(mail_package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A mailbox; the package for it is on the path."""
    (tmp_path / "box").write_text(MESSAGES)
    monkeypatch.syspath_prepend(str(mail_package))
    importlib.invalidate_caches()
    yield tmp_path / "box"
    sys.modules.pop("mail_source", None)


def test_a_package_adds_a_source_with_an_entry_point(mail: Path, context: SourceContext) -> None:
    """JN-53, JN-68: labels, filters and search operators of a mailbox, by a package that we know nothing of."""
    sources = make_sources()
    assert {"mail", "broken"} <= set(sources.list_names())
    address = f"mbox:{mail}?from=bob"
    source = sources.find(address, context)
    assert list(source.reads(address, context)) == [{"from": "bob@x", "subject": "two", "labels": ["home"]}]
    found = source.explores(f"mbox:{mail}", context)
    assert found["discoverable"]["labels"] == ["home", "urgent", "work"]
    assert source is sources.get("mail")


def test_a_source_without_inspection_support_is_an_error(mail: Path, context: SourceContext) -> None:
    """JN-35."""
    with pytest.raises(InvalidParams, match="the source 'mail' has no inspection support"):
        make_sources().get("mail").inspects(f"mbox:{mail}", context)


def test_a_source_that_cannot_be_loaded_does_not_disturb_others(mail: Path, context: SourceContext) -> None:
    sources = make_sources()
    assert sources.find(TIME, context).name == "mcp"
    with pytest.raises(AddressError, match=r"the source broken .mail_source:Nothing. cannot be loaded"):
        sources.find("ftp://x", context)
    assert sources.find(f"mbox:{mail}", context).name == "mail"


# the source for MCP servers


def records(address: str, context: SourceContext, **arguments: Any) -> list[dict[str, Any]]:
    return list(make_sources().find(address, context).reads(address, context, arguments))


def test_a_server_is_read_listed_and_written_to_over_one_connection(context: SourceContext) -> None:
    """JN-2, JN-4, JN-5, JN-8, JN-11, JN-12, JN-18, JN-31, JN-C14."""
    (tool,) = (one for one in records(f"{TIME}?list=tools", context) if one["name"] == "get_current_time")
    assert tool["type"] == "tool" and tool["inputSchema"]["required"] == ["timezone"]
    assert records(TIME, context) == []
    assert all(one["_type"] == "tool" and one["_container"] for one in records(f"{TIME}?list=all", context))
    address = f"{TIME}?tool=get_current_time&timezone=UTC"
    (result,) = records(address, context, timezone="Asia/Tokyo")
    assert "Asia/Tokyo" in result["text"] and result["mimeType"] == "text/plain"
    rows: list[dict[str, Any]] = [{"timezone": "UTC", "_row": 1}, {"timezone": "no/where"}, {}]
    found = list(make_sources().find(address, context).writes(address, rows, context))
    assert [one.get("isError", False) for one in found] == [False, True, False]
    with pytest.raises(InvalidParams, match="expected a tool to write to"):
        list(make_sources().find(TIME, context).writes(TIME, [{}], context))


def test_explore_gives_tools_resources_and_the_hash_that_version_gives(context: SourceContext) -> None:
    """JN-53, JN-54, JN-57, 50.20: `parameters` as the source of JN shows them."""
    source = make_sources().find(TIME, context)
    found = source.explores(TIME, context)
    assert (found["plugin"], found["service"]) == ("mcp", "mcp-time")
    assert {"tools", "resources"} <= found["discoverable"].keys()
    assert source.versions(TIME, context) == found["version_hash"]
    inspected = source.inspects(TIME, context)
    parameters = {
        "get_current_time": {"timezone": {"type": "string", "required": True}},
        "convert_time": {
            "source_timezone": {"type": "string", "required": True},
            "time": {"type": "string", "required": True},
            "target_timezone": {"type": "string", "required": True},
        },
    }
    tools = [tool | {"parameters": parameters[tool["name"]]} for tool in inspected["tools"]]
    assert (inspected["transport"], tools) == ("stdio", found["discoverable"]["tools"])


def test_a_contract_is_checked_once_per_connection_and_can_refuse_or_be_ignored(tmp_path: Path) -> None:
    """JN-44, JN-47, JN-48, JN-50, JN-C15."""
    judged: list[tuple[str, str]] = []
    heard: list[object] = []

    def judge(profile: Profile, result: ValidationResult) -> None:
        judged.append((profile.name, result.status))

    with open_context(tmp_path, check_contract=judge, on_event=heard.append) as context:
        launch = {"command": "uv", "args": ["run", "--with", "mcp-server-time", "mcp-server-time"]}
        tool = {"get_current_time": {"parameters": {"timezone": {"type": "integer"}}, "output_format": "text/csv"}}
        saved(context, "mcp", "time", **launch, schema_hash="0" * 64, tools=tool)
        for zone in ("UTC", "Asia/Tokyo"):
            assert records(f"@time/get_current_time?timezone={zone}", context)
        assert judged == [("time", "changed")]
        words = "Tool 'get_current_time': Output is text/plain; the profile expects text/csv"
        assert heard == [Log("warning", words, "patchbay.client")] * 2
        assert records("@time/get_current_time?timezone=UTC", context.without_contract_checks())
        strict = {**launch, "schema_validation": "error", "schema_hash": "0" * 64, "tools": tool}
        saved(context, "mcp", "strict", **strict)
    with open_context(tmp_path) as plain, pytest.raises(ContractError, match="@strict: "):
        records("@strict/get_current_time?timezone=UTC", plain)


def test_a_profile_says_how_long_its_server_may_take(tmp_path: Path) -> None:
    """JN-13: `timeout`, in seconds; a tool may have its own."""
    with open_context(tmp_path) as context:
        target = scripted()
        launch = {"command": target.command, "args": list(target.args), "transport": "stdio", "timeout": 0.2}
        saved(context, "mcp", "slow", **launch, tools={"echo": {"timeout": 30}})
        with pytest.raises(ServerTimeout, match=r"tools/call within 0\.2 s"):
            records("@slow/hang", context)
        assert records("@slow/echo?a=1", context)
        with pytest.raises(ServerTimeout, match=r"tools/call within 0\.4 s"):
            records("@slow/hang", replace(context, timeout=0.4))  # the user is asked first
        with pytest.raises(ProfileError, match="timeout: expected seconds"):
            saved(context, "mcp", "odd", **{**launch, "timeout": "soon"})


def test_a_call_can_pin_the_contract_of_a_server(tmp_path: Path) -> None:
    """X-21: `schema=CID` refuses what is not the pinned contract, and says what changed."""
    store = MemoryStore()
    with open_context(tmp_path, blobs=store.blobs) as context:
        tools = make_sources().find(TIME, context).inspects(TIME, context)["tools"]
        changed = json.loads(json.dumps(tools))
        changed[0]["inputSchema"]["properties"]["zone"] = {"type": "string"}
        good, other = store_snapshot(tools, store.blobs), store_snapshot(changed, store.blobs)
        call = f"{TIME}?tool={tools[0]['name']}&timezone=UTC&schema="
        assert records(call + good, context)
        with pytest.raises(ContractError, match=r"is not the one of bafk.*\n.*breaking: .*zone"):
            records(call + other, context)
