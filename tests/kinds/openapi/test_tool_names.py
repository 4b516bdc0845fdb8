"""Names of tools for the operations of an API (issue 17.2)."""

from __future__ import annotations

import re
from typing import Any

import pytest

from patchbay.client.openapi.operations import Api
from patchbay.kinds.openapi.tool_names import MAX_NAME_CHARACTERS, choose_names
from tests.kinds.openapi.mounting import document


def choose(*rows: tuple[str, str, str | None]) -> list[str]:
    """The names of operations: method, path, operationId."""
    paths: dict[str, Any] = {}
    for method, path, given in rows:
        paths.setdefault(path, {})[method] = {"operationId": given} if given else {}
    return choose_names(Api(document(paths), "the test").read_operations())


@pytest.mark.parametrize(
    ("method", "path", "given", "name"),
    [
        ("get", "/users", None, "list_users"),
        ("get", "/api/v1/users", None, "list_users"),
        ("get", "/users/{id}", None, "get_user"),
        ("post", "/users", None, "create_user"),
        ("put", "/users/{id}", None, "replace_user"),
        ("patch", "/users/{id}", None, "update_user"),
        ("delete", "/users/{id}", None, "delete_user"),
        ("get", "/users/{id}/posts", None, "list_user_posts"),
        ("get", "/categories/{id}/boxes/{box}", None, "get_category_box"),
        ("post", "/users/{id}/activate", None, "activate_user"),
        ("get", "/status", None, "get_status"),
        ("get", "/userProfiles", None, "list_user_profiles"),
        ("get", "/", None, "get_root"),
        ("get", "/users", "listUsers", "listUsers"),
        ("get", "/users", "users/list all", "users_list_all"),
        ("get", "/api/users/{user_id}", "read_user_api_users__user_id__get", "read_user"),
        ("get", "/a", f"get{'Many' * 9}WordsOfAGenerator", f"get{'Many' * 9}WordsOf"),
    ],
)
def test_a_name_is_one_that_people_would_choose(method: str, path: str, given: str | None, name: str) -> None:
    assert choose((method, path, given)) == [name]


def test_names_are_unique_and_the_first_operation_has_the_short_one() -> None:
    rows = [
        ("get", "/a/users", "list"),
        ("get", "/b/users", "list"),
        ("get", "/c/users", "LIST"),
        ("put", "/b", "list"),
    ]
    names = choose(*rows)
    assert names == ["list", "list_b_users", "list_c_users", "replace_b"]
    assert choose(*rows[:2]) == names[:2], "a later operation changes no name"


def test_every_name_is_accepted_by_every_client() -> None:
    rows = [("get", f"/{'ö' * number}/{'x' * number}", "é" * number or None) for number in range(80)]
    names = choose(*rows)
    assert len({name.lower() for name in names}) == 80
    assert all(re.fullmatch(rf"[A-Za-z0-9_-]{{1,{MAX_NAME_CHARACTERS}}}", name) for name in names)
