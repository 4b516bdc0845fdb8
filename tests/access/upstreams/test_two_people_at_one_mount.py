"""People call one mounted server, each with an own account there."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.access.upstreams.guarded import URL_CLIENT, Caller, Guarded, connect, subject_of, tools_of
from tests.hubs import Hub
from tests.waiting import until

pytestmark = [pytest.mark.node, pytest.mark.process]


def test_the_upstream_sees_two_subjects_and_never_a_token_of_the_hub_over_three_refreshes(
    hub: Hub, guarded: Guarded, ann: Caller, ben: Caller
) -> None:
    """ACCESS 8: two users at one mount of a server that wants OAuth."""
    before, refreshes = len(guarded.tokens()), guarded.issuer.count("/token")
    assert tools_of(ann, "far") == ["sign_in"]
    assert "connected" in connect(ann.browser.client, "far", "ann-there").text
    assert "connected" in connect(ben.browser.client, "far", "ben-there").text
    until(lambda: tools_of(ben, "far") == ["whoami"])
    for _ in range(4):
        assert ann.call("far", "whoami").text == "ann-there"
        assert ben.call("far", "whoami").text == "ben-there"
    with ThreadPoolExecutor(8) as pool:
        told = list(pool.map(lambda caller: caller.call("far", "whoami").text, [ann, ben] * 8))
    assert told == ["ann-there", "ben-there"] * 8
    # The tokens end so soon that each of these calls refreshed its own.
    assert guarded.issuer.count("/token") - refreshes >= 2 + 2 * 3
    seen = guarded.tokens()[before:]
    assert {subject_of(token) for token in seen} == {"ann-there", "ben-there"}
    everything = str(guarded.seen())
    for secret in (ann.token, ben.token, hub.token):
        assert secret not in everything
    assert ann.call("far", "whoami", URL_CLIENT).text == "ann-there"
