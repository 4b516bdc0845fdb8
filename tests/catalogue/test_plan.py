"""The configuration of a server: an unreadable one changes nothing, and a drop-in inherits nothing by its name."""

from __future__ import annotations

from typing import Any

import pytest

from patchbay.catalogue.planning import Planner
from patchbay.catalogue.watching.drop_ins import DropIn
from patchbay.config import Configs
from patchbay.errors import ConfigError, UnavailableServer

HELLO = 'def hello(name: str = "you") -> str:\n    """Says hello."""\n    return "Hello, " + name\n'
WAVE = 'def wave() -> str:\n    """Waves."""\n    return "o/"\n'


@pytest.mark.parametrize("text", ["{", "[]", "bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku"])
def test_a_broken_mcps_variable_enables_nothing_that_the_last_good_one_disables(bench: Any, text: str) -> None:
    bench.plug("hello", HELLO, config={"enabled": False})
    good = bench.store.names.get("variables/mcps")
    for broken in (text, "{ "):
        bench.store.names.move({"variables/mcps": bench.keep(broken)}, "an older hub", "broken")
    catalogue = bench.open()
    with pytest.raises(UnavailableServer, match="disabled"):
        catalogue.find("hello")
    assert f"its earlier value {good} is in force" in (catalogue.mcps_problem or "")


@pytest.mark.parametrize(
    ("name", "text", "place"),
    [
        ("mcps", "{", "variables/mcps: expected JSON"),
        ("mcps", '{"hello": 5}', "variables/mcps: at hello: its mcps configuration cannot be used"),
        ("mcps", '{"hello": {"config_cid": "%s"}}', "at titel: unknown field titel"),
        ("listing", '{"serch": true}', "did you mean search"),
    ],
)
def test_a_configuration_document_that_cannot_be_read_is_refused_where_it_is_written(
    bench: Any, name: str, text: str, place: str
) -> None:
    bench.plug("hello", HELLO, config={"enabled": False})
    wrong = bench.keep({"titel": "A slip"})
    before = bench.store.names.all()
    with pytest.raises(ConfigError) as caught:
        bench.change({f"variables/{name}": bench.keep(text.replace("%s", wrong))})
    assert place.split(":")[-1].strip() in caught.value.message
    assert bench.store.names.all() == before


def test_an_entry_that_is_broken_already_does_not_keep_another_from_being_changed(bench: Any) -> None:
    bench.plug("hello", HELLO)
    bench.plug("wave", WAVE)
    entries = {"hello": {"config_cid": bench.keep({"titel": "A slip"})}}
    bench.store.names.move({"variables/mcps": bench.keep(entries)}, "an older hub", "broken")
    entries["wave"] = {"config_cid": bench.keep({"title": "Waves"})}
    bench.change({"variables/mcps": bench.keep(entries)})
    assert bench.server("wave").title == "Waves"
    assert "titel" in bench.server("hello").broken


@pytest.mark.parametrize("name", ["hello", "silent"])
def test_a_drop_in_takes_nothing_over_from_the_server_that_it_replaces(bench: Any, name: str) -> None:
    bench.plug(name, HELLO, config={"isolation": "inline", "annotations": {"readOnlyHint": True}, "title": "Shipped"})
    bench.drop(f"{name}.py", WAVE)
    if name == "silent":
        bench.drop(f"{name}.mcp.json", {"auto_discover": True})
    catalogue = bench.open(watch=True)
    catalogue.start()
    server = catalogue.find(name)
    assert (server.origin, server.replaces) == (f"servers/{name}.py", bench.keep(HELLO))
    assert (server.title, server.config.get("isolation")) == (None, None)
    assert "annotations" not in server.tools["wave"].wire


def test_a_drop_in_that_is_the_shipped_definition_keeps_its_configuration(bench: Any) -> None:
    bench.plug("hello", HELLO, config={"title": "Shipped"})
    bench.drop("hello.py", HELLO)
    catalogue = bench.open(watch=True)
    catalogue.start()
    assert (catalogue.find("hello").title, catalogue.find("hello").replaces) == ("Shipped", None)


def test_a_drop_in_that_replaces_nothing_is_configured_by_the_mcps_variable(bench: Any) -> None:
    bench.drop("hello.py", HELLO)
    bench.configure("hello", {"auto_discover": True, "title": "By the operator"})
    catalogue = bench.open(watch=True)
    catalogue.start()
    assert catalogue.find("hello").title == "By the operator"


def test_a_row_is_planned_again_only_after_something_that_it_depends_on_has_changed(bench: Any) -> None:
    for name in ("hello", "wave"):
        bench.plug(name, HELLO)
    of_wave = DropIn("wave.py", bench.keep(HELLO))
    bench.store.names.move({"dropins/wave": bench.keep(of_wave.to_json())}, "test", "test")
    planner = Planner(bench.store, Configs(bench.store.blobs))

    def rows() -> Any:
        return planner.plan({}).rows

    first = rows()
    bench.configure("hello", {"title": "Greetings"})
    second = rows()
    assert second["hello"].config_cid and second["wave"] is first["wave"]
    bench.configure("hello", {"titel": "A slip"})
    assert "titel" in rows()["hello"].sentence
    bench.configure("hello", {"title": "Greetings"})
    assert rows()["hello"] == second["hello"]
    of_hello = DropIn("hello.py", bench.keep(HELLO))
    bench.store.names.move({"dropins/hello": bench.keep(of_hello.to_json())}, "test", "test")
    assert rows()["hello"].origin == "servers/hello.py"
    bench.change({"servers/hello": None})
    assert set(rows()) == {"wave"}
