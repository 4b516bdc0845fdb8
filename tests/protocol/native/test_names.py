"""How native methods and params are understood, and what the hub says of its methods."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from patchbay.arguments import problems, validator
from patchbay.jsonrpc import Failure
from patchbay.messages.callers import TransportInfo
from patchbay.protocol.native.names import TooMany, bound
from patchbay.protocol.native.subscription import parse_request
from tests.hubs import Hub
from tests.protocol.native.natives import FILES, Json, call_native, definition, items, native, refused, text
from tests.waiting import until


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    hub = Hub(tmp_path_factory.mktemp("native"), FILES, inline_limit=2000)
    yield hub
    hub.close()


# Methods


@pytest.mark.parametrize(
    ("method", "said"),
    [
        ("deep_down.b", "deep_down b"),
        ("deep_down_b", "deep_down b"),
        ("deep.main_b", "deep b"),
        ("deep_main_b", "deep b"),
        ("a_b.c", "a_b c"),
        ("a_b_c", "a_b c"),
        ("a.b_c", "a b_c"),
        ("a_b_d", "a b_d"),
        ("deep_down", "itself"),
        ("deep_down.deep_down", "itself"),
    ],
)
def test_a_method_is_namespace_and_tool_and_the_longest_namespace_wins(hub: Hub, method: str, said: str) -> None:
    """SUB-C13, SUB-35, SUB-15: `ns.method`, `ns_method`, and a namespace alone."""
    assert text(hub, method) == said


def test_main_goes_by_the_name_of_its_server(hub: Hub) -> None:
    assert text(hub, "deep", ["down"]) == text(hub, "deep.deep", {"word": "down"}) == "deep down"


def test_an_unknown_namespace_is_guided_to_the_schema(hub: Hub) -> None:
    """SUB-18: a name that stands for nothing is an error for its caller."""
    guidance, error = refused(hub, "depe.main", ["x"])
    assert (guidance["error_kind"], guidance["activation"]) == ("activation_not_found", "depe")
    assert guidance["action"] == "call_plexus_schema"
    assert guidance["provenance"] == {"segments": ["plexus"]}
    assert "there is no server 'depe'; did you mean deep" in error


def test_an_unknown_method_is_guided_to_a_close_one(hub: Hub) -> None:
    guidance, error = refused(hub, "mail.sned")
    assert (guidance["error_kind"], guidance["activation"]) == ("method_not_found", "mail")
    assert (guidance["action"], guidance["method"]) == ("try_method", "mail.send")
    assert guidance["available_methods"] == ["send", "unsubscribe_all"]
    assert error == "there is no method 'sned' in mail; it has: send, unsubscribe_all"


@pytest.mark.parametrize(("method", "rest"), [("mail.xyz", "xyz"), ("mail", ""), ("mail_", "")])
def test_an_unknown_method_with_nothing_close_is_guided_to_its_namespace(hub: Hub, method: str, rest: str) -> None:
    guidance, _ = refused(hub, method)
    assert (guidance["action"], guidance["namespace"], guidance["method"]) == ("call_activation_schema", "mail", rest)


def test_a_server_without_tools_has_an_error_message(hub: Hub) -> None:
    assert refused(hub, "plain.a")[1] == "the server plain has no tools"


@pytest.mark.parametrize("method", ["tools/call", "initialize", "ping", "no name", "a/b", "é.b", "x" * 258])
def test_other_methods_are_unknown_to_the_native_interface(hub: Hub, method: str) -> None:
    """SUB-35, SUB-34, SUB-40: methods of MCP, the handshake included, do not exist here: -32601."""
    request = parse_request({"jsonrpc": "2.0", "id": "i", "method": method})
    assert request is not None
    answer = native(hub).answer(request, TransportInfo("", connection="me"))
    assert isinstance(answer, Failure)
    assert (answer.id, answer.error["code"], answer.status) == ("i", -32601, 404)


# Params


def test_params_go_by_position_in_the_order_of_the_schema_or_by_name(hub: Hub) -> None:
    """SUB-C16, X-18."""
    by_position, by_name = (items(hub, "typed.right", params) for params in ([2, 3], {"b": 3, "a": 2}))
    assert by_position[0]["data"] == by_name[0]["data"] == {"total": 5}
    assert items(hub, "typed.right", [2])[0]["data"] == {"total": 3}


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ([], {}),
        ([1], {"a": 1}),
        ([1, 2, 3], {"a": 1, "b": 2, "c": 3}),
        ([1, None, 3], {"a": 1, "c": 3}),
        ([None], {"a": None}),
        ({"z": None}, {"z": None}),
    ],
)
def test_null_by_position_omits_an_optional_parameter(params: Any, expected: Json) -> None:
    """SUB-C16."""
    assert bound(params, ["a", "b", "c"], ["a"]) == expected


def test_more_params_than_parameters_are_refused() -> None:
    with pytest.raises(TooMany, match="2 params were given by position, and there are 1: a"):
        bound([1, 2], ["a"], [])
    with pytest.raises(TooMany, match=r"and there are 0$"):
        bound([1], [], [])


@pytest.mark.parametrize("params", [[], ["x"], [1, 2, 3], {"a": 1, "c": 2}, None])
def test_params_that_do_not_fit_are_guided_by_the_schema(hub: Hub, params: Any) -> None:
    """SUB-34: invalid params."""
    guidance, error = refused(hub, "typed.right", params)
    assert (guidance["error_kind"], guidance["method"]) == ("invalid_params", "typed.right")
    assert guidance["method_schema"]["required"] == ["a"]
    assert (guidance["action"], guidance["namespace"]) == ("call_activation_schema", "typed")
    assert guidance["provenance"] == {"segments": ["typed"]}
    assert guidance["reason"] == error


# Introspection


def test_the_schema_lists_the_callable_methods(hub: Hub) -> None:
    """SUB-7, SUB-15: namespaces and methods."""
    schema = call_native(hub, "plexus_schema", [])
    rows = {row["namespace"]: row for row in schema["activations"]}
    assert rows["mail"]["methods"] == ["send", "unsubscribe_all"]
    assert rows["mail"]["version"] == hub.catalogue.find("mail").version
    assert "plain" not in rows
    assert schema["total_methods"] == sum(len(row["methods"]) for row in rows.values())
    assert list(rows) == sorted(rows)
    assert schema == call_native(hub, "plexus.schema")


def test_an_activation_s_schema_has_a_case_for_each_method(hub: Hub) -> None:
    cases = call_native(hub, "plexus_activation_schema", ["typed"])["oneOf"]
    assert [case["properties"]["method"]["const"] for case in cases] == ["right", "wrong"]
    one = call_native(hub, "plexus_activation_schema", {"namespace": "typed", "method": "right"})
    assert one == cases[0]
    assert list(one["properties"]["params"]["properties"]) == ["a", "b"]


def test_references_inside_a_method_s_schema_still_lead_to_its_own_definitions(hub: Hub) -> None:
    case = call_native(hub, "plexus_activation_schema", ["coded", "boxed"])
    checker = validator(case)
    assert case["properties"]["params"]["$id"].startswith("urn:patchbay:")
    assert problems(checker, {"method": "boxed", "params": {"size": 1}}) == []
    assert problems(checker, {"method": "boxed", "params": {"size": "x"}}) != []


def test_the_full_schema_has_the_results_of_methods(hub: Hub) -> None:
    """S-F8: every method has an object schema."""
    full = call_native(hub, "plexus_full_schema", ["typed"])
    right = next(row for row in full["methods"] if row["name"] == "right")
    assert right["description"] == "Add."
    assert right["params"]["type"] == "object"
    assert right["returns"]["properties"]["total"] == {"type": "integer"}
    everyone = call_native(hub, "plexus_full_schema")["activations"]
    assert full in everyone
    assert {row["params"]["type"] for one in everyone for row in one["methods"]} == {"object"}


@pytest.mark.parametrize(
    ("method", "params", "kind"),
    [
        ("plexus_hash", [1], "invalid_params"),
        ("plexus_activation_schema", [1], "invalid_params"),
        ("plexus_activation_schema", {"name": "typed"}, "invalid_params"),
        ("plexus_activation_schema", [], "activation_not_found"),
        ("plexus_activation_schema", ["nobody"], "activation_not_found"),
        ("plexus_activation_schema", ["typed", "nothing"], "method_not_found"),
        ("plexus_full_schema", ["nobody"], "activation_not_found"),
    ],
)
def test_introspection_is_guided_too(hub: Hub, method: str, params: Any, kind: str) -> None:
    assert refused(hub, method, params)[0]["error_kind"] == kind


def test_the_hash_is_16_digits_and_in_every_item(hub: Hub) -> None:
    digest = call_native(hub, "plexus_hash")["hash"]
    assert len(digest) == 16 and int(digest, 16) >= 0
    assert {item["plexus_hash"] for item in items(hub, "mail.send")} == {digest}


def test_the_hash_changes_with_the_methods_and_is_the_same_on_every_machine(tmp_path: Path) -> None:
    """S-F10."""
    here, there = (Hub(tmp_path / name, {"mail.py": FILES["mail.py"]}) for name in ("here", "there"))
    try:
        before = call_native(here, "plexus_hash")["hash"]
        assert call_native(there, "plexus_hash")["hash"] == before
        (there.servers / "more.py").write_text(FILES["a_b.py"])
        until(lambda: call_native(there, "plexus_hash")["hash"] != before, "the hash is another")
        assert call_native(here, "plexus_hash")["hash"] == before
    finally:
        here.close()
        there.close()


def test_the_hash_changes_with_the_version_of_a_server_whose_methods_stay(tmp_path: Path) -> None:
    """S-F10."""
    hub = Hub(tmp_path, {"mail.py": FILES["mail.py"]})
    try:
        before, version = call_native(hub, "plexus_hash")["hash"], hub.catalogue.find("mail").version
        (hub.servers / "mail.py").write_text(FILES["mail.py"] + "\n# The same methods.\n")
        until(lambda: hub.catalogue.find("mail").version != version, "another version is served")
        assert call_native(hub, "plexus_hash")["hash"] != before
    finally:
        hub.close()


def test_a_server_called_plexus_does_not_hide_the_hub_s_own_methods(tmp_path: Path) -> None:
    hub = Hub(tmp_path, {"plexus.py": definition(hash="no", other="other")})
    try:
        assert "hash" in call_native(hub, "plexus.hash")
        assert text(hub, "plexus.other") == "other"
    finally:
        hub.close()
