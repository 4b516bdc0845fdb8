"""The routes of the hub: they are added without syntax trees, and build their URLs as those of Werkzeug do."""

from __future__ import annotations

import ast
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from werkzeug.routing import Map, Rule

from patchbay.python_functions.syntax import SYNTAX_LOCK
from patchbay.web.routes import Route
from tests.hubs import Hub


def test_pages_are_loaded_without_syntax_trees(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(Hub(tmp_path)) as hub:
        monkeypatch.setattr(Rule, "_get_func_code", refuse)
        hub.app.parts.pages.load()
        routes = list(hub.app.url_map.iter_rules())
        assert len(routes) > 150 and all(isinstance(one, Route) for one in routes)
        assert hub.client.get("/history").status_code == 200


def refuse(*_: Any) -> Any:
    raise AssertionError("a builder of URLs was compiled")


@pytest.mark.parametrize(
    ("endpoint", "values"),
    [
        ("page", {"name": "a b/ü", "number": 7}),
        ("page", {"name": "x", "number": 7, "rule": "y", "self": "z"}),
        ("first", {}),
        ("files", {"path": "a/b c"}),
        ("hosted", {"who": "ann"}),
    ],
)
def test_a_route_builds_the_url_that_werkzeug_builds(endpoint: str, values: dict[str, Any]) -> None:
    def built(kind: type[Rule]) -> str:
        rules = [
            kind("/servers/<name>/<int:number>", endpoint="page"),
            kind("/pages/<int:number>", endpoint="first", defaults={"number": 1}),
            kind("/files/<path:path>", endpoint="files"),
            kind("/home", subdomain="<who>", endpoint="hosted"),
        ]
        return Map(rules).bind("example.org").build(endpoint, values)

    assert built(Route) == built(Rule)


def test_no_thread_reads_a_definition_while_a_builder_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """CPython before 3.11.8 and 3.12.1 fails when two threads build syntax trees."""
    could_parse: list[bool] = []
    walk = ast.walk

    def try_lock() -> None:
        found = SYNTAX_LOCK.acquire(blocking=False)
        could_parse.append(found)
        if found:
            SYNTAX_LOCK.release()

    def walk_and_look(node: ast.AST) -> Any:
        other = threading.Thread(target=try_lock)
        other.start()
        other.join()
        return walk(node)

    routes = Map([Route("/x/<name>", endpoint="x")]).bind("example.org")
    monkeypatch.setattr(ast, "walk", walk_and_look)
    assert [routes.build("x", {"name": "a"}) for _ in range(2)] == ["/x/a", "/x/a"]
    assert could_parse and not any(could_parse)
