"""Skills: listing, getting, reading and walking them, over a real endpoint in both eras."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from patchbay.catalogue.reading.skills import MAX_SKILL_BYTES, load_skills
from patchbay.protocol.skills import SKILLS
from patchbay.stores.memory import MemoryStore
from tests.checkout import ROOT
from tests.hubs import Hub

HEAD = """---
name: {name}
description: How to {name}
version: 1.0
released: 2026-01-02
enabled: yes
metadata: {{tags: [a, b], "io.example/x": "1"}}
---

# {name}
"""
BINARY = bytes(range(256))


def skill(name: str, **files: Any) -> dict[str, Any]:
    return {"SKILL.md": {"text": HEAD.format(name=name)}} | files


SKILLS_GIVEN = {
    "weave": skill("weave"),
    "bake": {
        "references/deep/more.txt": {"text": "more"},
        "references/GUIDE.md": {"text": "# Guide\n"},
        "scripts/run it.py": {"text": "pass\n"},
        "picture.bin": {"blob": base64.b64encode(BINARY).decode()},
        **skill("bake"),
    },
    "knit": skill("knit"),
}


def config(**more: Any) -> str:
    note = {"uri": "s://note", "name": "note", "text": "hi"}
    return json.dumps({"kind": "static", "resources": {"note": note}, **more})


@pytest.fixture(scope="module")
def crafts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    files = {"crafts.json": config(skills=SKILLS_GIVEN), "plain.json": config()}
    hub = Hub(tmp_path_factory.mktemp("crafts"), files, page_size=2, enable=("everything",))
    yield hub
    hub.close()


def send_request(hub: Hub, method: str, server: str = "crafts", **params: Any) -> dict[str, Any]:
    answer = hub.modern(server, method, params)
    assert answer.status == 200, answer.last
    return answer.result


def pages(hub: Hub, method: str, member: str, **params: Any) -> list[list[Any]]:
    found: list[list[Any]] = []
    cursor: dict[str, str] = {}
    while True:
        result = send_request(hub, method, **params, **cursor)
        found.append(result[member])
        if "nextCursor" not in result:
            return found
        cursor = {"cursor": result["nextCursor"]}


def test_every_skill_is_listed_page_by_page_with_all_its_files(crafts: Hub) -> None:
    """SPEC-DIGEST 1.14."""
    found = pages(crafts, "skills/list", "skills")
    assert [len(page) for page in found] == [2, 1]
    entries = {entry["uri"]: entry for page in found for entry in page}
    assert list(entries) == [f"skill://{name}/SKILL.md" for name in ("weave", "bake", "knit")]
    resources = entries["skill://bake/SKILL.md"]["resources"]
    assert [one["uri"] for one in resources] == [
        *("skill://bake/SKILL.md", "skill://bake/picture.bin", "skill://bake/references/GUIDE.md"),
        *("skill://bake/references/deep/more.txt", "skill://bake/scripts/run%20it.py"),
    ]
    assert resources[1]["size"] == 256
    first = send_request(crafts, "skills/list")
    assert (first["resultType"], first["cacheScope"], first["ttlMs"]) == ("complete", "private", 0)


def test_digest_and_size_are_those_of_the_bytes_that_are_read(crafts: Hub) -> None:
    for entry in (entry for page in pages(crafts, "skills/list", "skills") for entry in page):
        for file in entry["resources"]:
            content = send_request(crafts, "resources/read", uri=file["uri"])["contents"][0]
            data = base64.b64decode(content["blob"]) if "blob" in content else content["text"].encode()
            assert (file["digest"], file["size"]) == (f"sha256:{sha256(data).hexdigest()}", len(data))
            assert content["uri"] == file["uri"]


def test_the_frontmatter_is_read_as_yaml_1_2(crafts: Hub) -> None:
    """SPEC-DIGEST 3.5: `yes` and dates are texts there."""
    entry = send_request(crafts, "skills/get", uri="skill://bake/SKILL.md")["skill"]
    assert entry["frontmatter"] == {
        "name": "bake",
        "description": "How to bake",
        "version": 1.0,
        "released": "2026-01-02",
        "enabled": "yes",
        "metadata": {"tags": ["a", "b"], "io.example/x": "1"},
    }


def test_one_skill_is_got_as_it_is_listed(crafts: Hub) -> None:
    listed = [entry for page in pages(crafts, "skills/list", "skills") for entry in page]
    for entry in listed:
        result = send_request(crafts, "skills/get", uri=entry["uri"])
        assert result["skill"] == entry and "nextCursor" not in result
        assert {"ttlMs", "cacheScope"} <= set(result)


UNKNOWN = ["skill://nobody/SKILL.md", "skill://bake", "skill://bake/picture.bin", "", 5, None]


@pytest.mark.parametrize("uri", UNKNOWN)
def test_an_unknown_skill_is_an_invalid_parameter(crafts: Hub, uri: Any) -> None:
    assert crafts.modern("crafts", "skills/get", {"uri": uri}).error["code"] == -32602


def test_a_directory_lists_its_direct_entries(crafts: Hub) -> None:
    found = pages(crafts, "resources/directory/read", "resources", uri="skill://bake")
    children = [one for page in found for one in page]
    assert [(one["uri"], one["name"], one["mimeType"]) for one in children] == [
        ("skill://bake/SKILL.md", "bake", "text/markdown"),
        ("skill://bake/picture.bin", "picture.bin", "application/octet-stream"),
        ("skill://bake/references", "references", "inode/directory"),
        ("skill://bake/scripts", "scripts", "inode/directory"),
    ]
    deeper = send_request(crafts, "resources/directory/read", uri="skill://bake/references")
    assert [(one["name"], one["mimeType"]) for one in deeper["resources"]] == [
        ("GUIDE.md", "text/markdown"),
        ("deep", "inode/directory"),
    ]
    assert "nextCursor" not in deeper and "ttlMs" not in deeper


NO_DIRECTORIES = [
    *("skill://bake/SKILL.md", "skill://nobody", "skill://bake/", "skill://", "skill:/", "s://note", "skill://bak", 5),
    *("skill://bake/references/..", "skill://bake/references/deep/more.txt"),
]


@pytest.mark.parametrize("uri", NO_DIRECTORIES)
def test_a_uri_that_is_not_a_directory_is_an_invalid_parameter(crafts: Hub, uri: Any) -> None:
    assert crafts.modern("crafts", "resources/directory/read", {"uri": uri}).error["code"] == -32602


@pytest.mark.parametrize("uri", ["skill://bake/../weave/SKILL.md", "skill://bake/references", "skill://bake/run it.py"])
def test_only_files_by_their_own_address_are_read(crafts: Hub, uri: str) -> None:
    assert crafts.modern("crafts", "resources/read", {"uri": uri}).error["code"] == -32602


@pytest.mark.parametrize("cursor", ["", "x", 5])
def test_a_cursor_of_another_list_is_refused(crafts: Hub, cursor: Any) -> None:
    """SPEC-DIGEST 1.11."""
    other = send_request(crafts, "resources/directory/read", uri="skill://bake")["nextCursor"]
    for wrong in (cursor, other):
        assert crafts.modern("crafts", "skills/list", {"cursor": wrong}).error["code"] == -32602
        params = {"uri": "skill://bake/references", "cursor": wrong}
        assert crafts.modern("crafts", "resources/directory/read", params).error["code"] == -32602


def test_each_skill_is_among_the_resources(crafts: Hub) -> None:
    found = [one for page in pages(crafts, "resources/list", "resources") for one in page]
    assert [one["uri"] for one in found] == ["s://note", *(f"skill://{name}/SKILL.md" for name in SKILLS_GIVEN)]
    head = next(one for one in found if one["uri"] == "skill://bake/SKILL.md")
    assert (head["name"], head["description"], head["mimeType"]) == ("bake", "How to bake", "text/markdown")


def test_the_extension_is_declared_where_there_are_skills(crafts: Hub) -> None:
    found = send_request(crafts, "server/discover")["capabilities"]
    assert found["extensions"] == {SKILLS: {"directoryRead": True}} and "resources" in found
    assert "extensions" not in send_request(crafts, "server/discover", "plain")["capabilities"]


@pytest.mark.parametrize("method", ["skills/list", "skills/get", "resources/directory/read"])
def test_a_server_without_skills_has_no_such_methods(crafts: Hub, method: str) -> None:
    answer = crafts.modern("plain", method, {"uri": "skill://bake/SKILL.md"})
    assert (answer.status, answer.error["code"]) == (404, -32601)


@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25"])
def test_older_revisions_have_skills_too_without_hints_for_caches(crafts: Hub, version: str) -> None:
    params = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    declared = crafts.legacy("crafts", "initialize", params, version=None).result["capabilities"]
    assert declared["extensions"] == {SKILLS: {"directoryRead": True}}
    listed = crafts.legacy("crafts", "skills/list", version=version).result
    assert set(listed) == {"skills", "nextCursor"}
    got = crafts.legacy("crafts", "skills/get", {"uri": "skill://bake/SKILL.md"}, version=version).result
    assert set(got) == {"skill"}
    inside = crafts.legacy("crafts", "resources/directory/read", {"uri": "skill://bake"}, version=version).result
    assert set(inside) == {"resources", "nextCursor"}


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26"])
def test_revisions_without_extensions_have_no_skills(crafts: Hub, version: str) -> None:
    params = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    assert "extensions" not in crafts.legacy("crafts", "initialize", params, version=None).result["capabilities"]
    assert crafts.legacy("crafts", "skills/list", version=version).error["code"] == -32601


def test_a_skill_of_the_boot_image_is_made_of_files(crafts: Hub) -> None:
    """VWR-33: files in a configuration become CIDs."""
    folder = ROOT / "reference_templates" / "skills"
    entries = send_request(crafts, "skills/list", "everything")["skills"]
    assert entries
    for file in (file for entry in entries for file in entry["resources"]):
        text = send_request(crafts, "resources/read", "everything", uri=file["uri"])["contents"][0]["text"]
        assert text == (folder / file["uri"].removeprefix("skill://")).read_text("utf-8")


def described(yaml: str) -> dict[str, Any]:
    return {"SKILL.md": {"text": f"---\nname: odd\ndescription: odd\n{yaml}\n---\n"}}


PROBLEMS: list[tuple[dict[str, Any], str]] = [
    ({"SKILL.md": {"text": "# no YAML"}}, "expected YAML between two lines of ---"),
    ({"SKILL.md": {"text": "---\nname: [\n---\n"}}, "expected valid YAML"),
    ({"SKILL.md": {"text": "---\n- a\n---\n"}}, "expected YAML with names and values"),
    ({"SKILL.md": {"text": "---\nname: even\ndescription: x\n---\n"}}, "expected the name odd in its YAML"),
    ({"SKILL.md": {"text": "---\nname: odd\n---\n"}}, "expected a description"),
    ({"SKILL.md": {"blob": "/w=="}}, "utf-8"),
    ({"SKILL.md": {"blob": "?"}}, "expected base64"),
    ({"SKILL.md": {"cid": "bafkreibm6jg3ux5qumhcn2b3flc3tyu6dmlb4xa7u5bf44yegnrjhc4yeq"}}, "not in the store"),
    ({"SKILL.md": {"cid": "nonsense"}}, "nonsense"),
    (described("x: &a 1\ny: *a"), "expected no alias"),
    (described("x: !!python/name:os.system ''"), "expected no tag"),
    (described("x: .nan"), "expected a number that JSON allows"),
    (described("x: 99999999999999999999"), "64 bits"),
    (described("x: 1\nx: 2"), "to occur once"),
    (described("? [a]\n: 1"), "each key to be a string"),
    (described("x: " + "[" * 20 + "]" * 20), "nests at most"),
    (described("x: " + "a" * 70_000), "at most 65536 characters"),
    (skill("odd", a={"text": "x"}, **{"a/b": {"text": "y"}}), "to be a file or a directory, not both"),
]


@pytest.mark.parametrize(("files", "sentence"), PROBLEMS, ids=lambda value: str(value)[:40])
def test_a_skill_that_is_not_whole_is_a_problem_and_the_rest_stands(
    tmp_path: Path, files: dict[str, Any], sentence: str
) -> None:
    hub = Hub(tmp_path, {"crafts.json": config(skills={"odd": files, "fine": skill("fine")})})
    try:
        server = hub.catalogue.find("crafts")
        assert list(server.skills) == ["fine"]
        problems = [one.reason for one in server.problems if one.where == "skills.odd"]
        assert len(problems) == 1 and sentence in problems[0], problems
    finally:
        hub.close()


def test_all_files_of_a_skill_together_have_a_bound() -> None:
    blobs = MemoryStore().blobs
    large = {"a": {"cid": blobs.put(b"x" * (MAX_SKILL_BYTES - 1))}}
    found, problems = load_skills({"skills": {"odd": skill("odd", **large)}}, "a test", blobs)
    assert found == {} and [one.where for one in problems] == ["skills.odd"]
    assert f"expected at most {MAX_SKILL_BYTES} bytes" in problems[0].reason


SCHEMA_PROBLEMS: list[tuple[Any, str]] = [
    ({"Odd": skill("Odd")}, "lower-case"),
    ({"a--b": skill("a--b")}, "lower-case"),
    ({"odd": {}}, "SKILL.md"),
    ({"odd": {"skill.md": {"text": ""}}}, "SKILL.md"),
    ({"odd": skill("odd", x={})}, "expected exactly one of text, blob, cid"),
    ({"odd": skill("odd", x={"text": "", "cid": "y"})}, "expected exactly one of text, blob, cid"),
    ({"odd": skill("odd", **{f"f{n}": {"text": ""} for n in range(512)})}, "at most 512 with 16 MiB"),
    *(
        ({"odd": skill("odd", **{path: {"text": ""}})}, "a path inside the skill")
        for path in (
            "../x",
            "a/../b",
            "/x",
            "a//b",
            "a/",
            ".",
            "a/.",
            "",
            "a\\b",
            "a%2fb",
            "a?b",
            "a#b",
            "a\nb",
            "a\0b",
        )
    ),
]


@pytest.mark.parametrize(("skills", "sentence"), SCHEMA_PROBLEMS, ids=lambda value: str(value)[:60])
def test_a_configuration_whose_skills_have_no_such_form_is_refused(tmp_path: Path, skills: Any, sentence: str) -> None:
    """SPEC-DIGEST 6.5: no way out of a skill, and no file that could be meant in two ways."""
    hub = Hub(tmp_path, {"crafts.json": config(skills=skills)})
    try:
        (told,) = [server.broken for server in hub.catalogue.all() if server.name == "crafts"]
        assert told is not None and "skills" in told and sentence in told, told
    finally:
        hub.close()
