"""What is listed is what can be used, for random grants, principals and objects, by every way in.

Each example compares the hub with the independent account in `team.py`. `python -m benchmarks.visible` does the same
for 10,000 documents; here is a share of them.

Sources: ACCESS section 3; issue 16 "Must show".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from patchbay.access.principals import Principal
from patchbay.errors import PatchbayError
from tests.access.members import Member
from tests.access.random_access import documents, principals
from tests.access.team import SERVERS
from tests.access.ways import WAYS, Comparisons, Team
from tests.hubs import Hub

OVER_HTTP = ("plain HTTP", "pages", "SDK client")
"""Ways that cost more than a call of the dispatcher."""


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    team = Team(tmp_path_factory.mktemp("team"))
    yield team
    team.close()


@pytest.fixture
def hub(team: Team) -> Hub:
    return team.hub


def check_lists(team: Team, document: Any, who: Principal, server: str) -> None:
    """Compare the hub with the account by all ways that are calls of the dispatcher."""
    for way in WAYS.keys() - OVER_HTTP:
        team.check(way, document, who, server, Comparisons())


@pytest.mark.slow
@settings(deadline=None, max_examples=400, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(documents, principals, st.sampled_from(SERVERS))
def test_lists_hold_exactly_the_entries_that_can_be_used(
    team: Team, document: Any, who: Principal, server: str
) -> None:
    check_lists(team, document, who, server)


@pytest.mark.slow
@pytest.mark.full
@settings(deadline=None, max_examples=1500, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(documents, principals, st.sampled_from(SERVERS))
def test_lists_hold_exactly_the_entries_that_can_be_used_with_more_documents(
    team: Team, document: Any, who: Principal, server: str
) -> None:
    check_lists(team, document, who, server)


def check_other_ways(team: Team, document: Any, who: Principal, server: str, seed: int) -> None:
    """Compare the hub with the account over HTTP, on pages and through the SDK's client."""
    for way in OVER_HTTP:
        team.check(way, document, who, server, Comparisons(seed))


@pytest.mark.slow
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(documents, principals, st.sampled_from(SERVERS), st.integers(0, 99))
def test_lists_hold_exactly_the_entries_that_can_be_used_over_http_and_on_pages(
    team: Team, document: Any, who: Principal, server: str, seed: int
) -> None:
    check_other_ways(team, document, who, server, seed)


@pytest.mark.slow
@pytest.mark.full
@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(documents, principals, st.sampled_from(SERVERS), st.integers(0, 99))
def test_lists_hold_exactly_the_entries_that_can_be_used_over_http_and_on_pages_with_more_documents(
    team: Team, document: Any, who: Principal, server: str, seed: int
) -> None:
    check_other_ways(team, document, who, server, seed)


def test_an_error_names_no_hidden_server(hub: Hub) -> None:
    member = Member(hub, {"grants": [{"to": ["*"], "may": ["call"], "on": ["lone"]}]}, Principal("ann"))
    for endpoint in ("note", "notes", "notes@bafkreigh2akiscaildcqabsyg3dfr6chu3fgpregiymsck7e7aqa4s52zy"):
        message = member.ask(endpoint, "tools/list")["error"]["message"]
        assert "did you mean" not in message
    with pytest.raises(PatchbayError, match="did you mean lone"):
        hub.app.parts.dispatcher.server("lon", Principal("ann"))


def test_members_with_the_same_rights_share_their_lists(hub: Hub) -> None:
    """ACCESS 3: lists are cached by what a principal may see, not by the principal."""
    document = {"grants": [{"to": ["ann", "ben"], "may": ["call"], "on": ["notes.search"]}]}
    member, dispatcher = Member(hub, document, Principal("ann")), hub.app.parts.dispatcher
    first = dispatcher.server("notes", member.who)
    assert dispatcher.server("notes", Principal("ben")) is first
    assert dispatcher.server("notes", member.who) is first
    whole = Member(hub, {"grants": [{"to": ["*"], "may": ["see", "call", "read"], "on": ["notes"]}]}, Principal("ann"))
    assert dispatcher.server("notes", whole.who) is hub.catalogue.find("notes")
