"""The owners of URIs where several servers are one: who comes first, what is refused and what stays bounded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import pytest

from patchbay.catalogue.reading.uri_owners import MAX_COMPARED_TEMPLATES, UriOwners
from patchbay.catalogue.servers.server import Server
from patchbay.descriptors import Descriptor


def server(
    name: str,
    uris: Mapping[str, float],
    templates: Mapping[str, float] | None = None,
    mounted: bool = True,
    origin: str = "servers/x.json",
) -> Server:
    """Make a server that lists URIs and templates, each with the time of its first sight."""
    templates = templates or {}
    standing = cast(Any, object()) if mounted else None
    return Server(
        name,
        "version",
        "upstream" if mounted else "static",
        resources={uri: Descriptor("resource", uri, {"uri": uri}) for uri in uris},
        templates={key: Descriptor("template", key, {"uriTemplate": key}) for key in templates},
        upstream=standing,
        first_seen={**uris, **templates},
        origin=origin,
    )


def owner(uri: str, *servers: Server) -> str | None:
    """Return the name of the owner, the same in every order of the servers."""
    found = {getattr(UriOwners.of(order).find(uri), "name", None) for order in (servers, servers[::-1])}
    (name,) = found
    return name


def test_the_server_that_listed_a_uri_first_keeps_it() -> None:
    assert owner("x://a", server("a", {"x://a": 2.0}), server("b", {"x://a": 1.0})) == "b"


def test_a_server_of_the_hub_comes_before_every_mount_and_a_shipped_one_before_both() -> None:
    own = server("own", {"x://a": 0.0}, mounted=False)
    shipped = server("shipped", {"x://a": 0.0}, mounted=False, origin="boot image")
    assert owner("x://a", server("a", {"x://a": -1.0}), own) == "own"
    assert owner("x://a", own, shipped) == "shipped"


def test_what_members_of_a_room_share_takes_nothing_from_a_mount() -> None:
    room = server("room.a", {"notes://first": 0.0, "x://own": 0.0}, mounted=False)
    honest = server("z", {"notes://first": 1.0}, {"notes://{id}": 1.0})
    assert owner("notes://first", room, honest) == "z"
    assert owner("x://own", room, honest) == "room.a"


def test_a_template_of_an_earlier_mount_keeps_its_uris_from_a_later_list() -> None:
    honest, liar = server("z", {}, {"notes://{id}": 1.0}), server("a", {"notes://5": 2.0})
    assert owner("notes://5", honest, liar) == "z"
    assert UriOwners.of([honest, liar]).resources == {}


def test_a_later_template_takes_no_part_of_a_scheme_that_another_server_uses() -> None:
    honest, liar = server("z", {"notes://first": 1.0}), server("a", {}, {"notes://{+any}": 2.0})
    assert owner("notes://second", honest, liar) is None
    assert owner("notes://second", liar) == "a"


def test_templates_of_other_authorities_of_one_scheme_are_served_side_by_side() -> None:
    one, two = server("one", {}, {"db://one/{table}": 1.0}), server("two", {}, {"db://two/{table}": 2.0})
    assert owner("db://one/t", one, two) == "one"
    assert owner("db://two/t", one, two) == "two"


def test_in_a_shared_scheme_a_listed_uri_goes_before_the_template_of_another_mount() -> None:
    greedy, exact = server("greedy", {}, {"file:///{+path}": 1.0}), server("exact", {"file:///a/b": 2.0})
    assert owner("file:///a/b", greedy, exact) == "exact"
    assert owner("file:///a/c", greedy, exact) == "greedy"


@pytest.mark.parametrize(
    "template", ["{+any}", "{scheme}://x", "c{x}d://{y}", "cid://{x}{?key}", "CID:{+x}", "server://{x}", "ui:{+x}"]
)
def test_a_template_without_a_scheme_or_with_one_of_the_hub_is_not_taken(template: str) -> None:
    owners = UriOwners.of([server("liar", {}, {template: 1.0})])
    assert owners.templates == {}
    assert len(owners.refused["liar"]) == 1


def test_a_uri_that_is_not_percent_encoded_harms_no_list() -> None:
    honest, liar = server("z", {}, {"notes://{id}": 1.0}), server("a", {"notes://%zz": 2.0, "mine://x": 2.0})
    assert owner("mine://x", honest, liar) == "a"


def test_a_uri_is_compared_with_a_bounded_number_of_templates() -> None:
    """Behind more of them it is not taken: the work for 5,000 URIs and 5,000 templates stays small."""
    many = {f"x://{{a}}/{number}": 1.0 for number in range(MAX_COMPARED_TEMPLATES + 1)}
    owners = UriOwners.of([server("many", {}, many), server("late", {"x://a/none": 2.0})])
    assert owners.resources == {}
