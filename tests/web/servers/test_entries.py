"""The entries of a server with many: lines with links, one whole entry for each request, pages, a bound on the size."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from patchbay.web.site.data import ITEMS_PER_PAGE
from tests.hubs import Hub
from tests.web.browsing import BROWSER, links, read, read_json
from tests.wire.hostile import Reader

TOOLS = 500
HTML_BYTES = 46_000
"""Style sheets and scripts of this page have 38 KB; a page may have 84 KB."""

TOOL = '''
def weigh_thing_number_{n}(text: str, times: int = 1) -> str:
    """Weigh thing {n} of the harbour and write its weight into the list of the day.

    Args:
        text: The words for thing {n}.
    """
    return text
'''


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """A hub with a server of 500 tools, resources and prompts, and a small server."""
    extra = {
        "auto_discover": True,
        "resources": {f"r{n}": {"uri": f"x://{n}", "text": "x"} for n in range(3)},
        "prompts": {"plan": {"messages": [{"content": "x"}]}},
    }
    files = {
        "harbour.py": '"""A harbour."""\n\n' + "\n".join(TOOL.format(n=n) for n in range(1, TOOLS + 1)),
        "harbour.mcp.json": json.dumps(extra),
        "small.py": 'def one() -> str:\n    """One."""\n\n\ndef two() -> str:\n    """Two."""\n',
    }
    hub = Hub(tmp_path_factory.mktemp("entries"), files)
    yield hub
    hub.close()


@pytest.mark.parametrize("query", ["", "?page=3", "?page=9", "?tool=weigh_thing_number_321", "?find=thing"])
def test_the_page_of_a_server_with_500_tools_is_light(hub: Hub, query: str) -> None:
    """Issue 17: at most 84 KB, however many tools a server has."""
    html = read(hub, f"/servers/harbour{query}")
    assert html.count('class="item"') <= ITEMS_PER_PAGE
    assert len(html.encode()) < HTML_BYTES


def test_a_line_leads_to_the_whole_entry_without_scripts(hub: Hub) -> None:
    html = read(hub, "/servers/harbour")
    link = "?tool=weigh_thing_number_50#tool-50"
    assert link in links(html)
    assert "The words for thing 50." not in html
    html = read(hub, f"/servers/harbour{link.partition('#')[0]}")
    opened = re.findall(r'<details class="item" open>.*?</details>\s*<', html, re.DOTALL)
    assert len(opened) == 1 and 'id="tool-50"' in opened[0]
    assert "The words for thing 50." in Reader(html).text and 'data-key="weigh_thing_number_50"' in html


def test_a_script_loads_one_entry_alone(hub: Hub) -> None:
    html = read(hub, "/servers/harbour?tool=weigh_thing_number_400&part=entry")
    assert html.count('class="item"') == 1 and "<main" not in html
    assert 'id="tool-400"' in html and 'data-endpoint="/mcp/harbour"' in html
    assert "The words for thing 400." in Reader(html).text


@pytest.mark.parametrize(("query", "id"), [("resource=x://2", "resource-3"), ("prompt=plan", "prompt-1")])
def test_a_resource_and_a_prompt_are_selected_on_their_page(hub: Hub, query: str, id: str) -> None:
    html = read(hub, f"/servers/harbour?{query}")
    assert f'id="{id}"' in html and "<strong>9</strong>" in html and 'class="item" open' in html


def test_an_entry_that_does_not_exist_gets_a_clear_error(hub: Hub) -> None:
    for kind in ("tool", "resource", "prompt"):
        answer = hub.client.get(f"/servers/harbour?{kind}=absent", headers=BROWSER)
        assert answer.status_code == 404
        assert f"The server harbour has no {kind} 'absent'." in Reader(answer.get_data(as_text=True)).text


def test_a_server_with_few_entries_has_them_whole(hub: Hub) -> None:
    html = read(hub, "/servers/small")
    assert html.count("data-try=") == 2 and "data-entry" not in html


def test_a_search_result_selects_its_entry(hub: Hub) -> None:
    found = read_json(hub.client.get("/search.json?q=weigh_thing_number_77&kind=tool"))
    assert found[0]["page"] == "/servers/harbour?tool=weigh_thing_number_77#tool-77"
    assert "The words for thing 77." in Reader(read(hub, found[0]["page"].partition("#")[0])).text
