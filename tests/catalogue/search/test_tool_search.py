"""Search for tools in a catalogue that is too large to show clients all of it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from patchbay.catalogue.aggregate.public_names import public_name
from patchbay.catalogue.search.tool_search import ToolSearch, searchable_texts
from patchbay.catalogue.servers.listing import CALL, MAX_NAMED_SERVERS, SEARCH, Listing, search_descriptors
from patchbay.config import parse_listing
from patchbay.descriptors import Descriptor
from patchbay.embeddings.selection import select
from patchbay.errors import ConfigError
from tests.catalogue.conftest import Bench
from tests.embeddings.small_models import make_model

WANTED = {
    "create_issue github": "github__create_issue",
    "how do I open a bug report on a GitHub repository?": "github__create_issue",
    "send a message to a slack channel": "slack__send_message",
    "post to Slack": "slack__send_message",
    "send an email": "gmail__send_email",
    "schedule a meeting with my colleagues": "calendar__create_event",
    "when is everyone free": "calendar__find_free_time",
    "read a file from disk": "filesystem__read_file",
    "rename a file": "filesystem__move_file",
    "who last changed this line": "git__blame",
    "run a SQL query against postgres": "postgres__query",
    "why is this query slow, show the execution plan": "postgres__explain_query",
    "restart a kubernetes deployment": "kubernetes__rollout_restart",
    "scale replicas": "kubernetes__scale_deployment",
    "tail the logs of a pod": "kubernetes__get_pod_logs",
    "upload an object to an S3 bucket": "aws_s3__putObject",
    "put object": "aws_s3__putObject",
    "presigned url": "aws_s3__createPresignedUrl",
    "take a screenshot of a web page": "browser__take_screenshot",
    "search the web": "brave__web_search",
    "weather forecast for Berlin tomorrow": "weather__get_forecast",
    "refund a payment": "stripe__create_refund",
    "cancel a customer's subscription": "stripe__cancel_subscription",
    "approving pull requests": "github__create_review",
    "transcribe an audio recording": "audio__transcribe",
    "convert euros to dollars, exchange rate": "currency__convert",
    "turn on the lights": "hue__set_light",
    "who is on call": "pagerduty__get_oncall",
    "failed CI job logs": "github__get_job_logs",
    "max_output stack trace": "sentry__get_stacktrace",
    "translat": "translate__translate_text",
}


def tool(name: str, description: str = "", arguments: str = "") -> Descriptor:
    properties = {one.strip(): {"type": "string"} for one in arguments.split(",") if one.strip()}
    schema = {"type": "object", "properties": properties}
    server, _, own = name.partition(".")
    public = public_name(server, own) if own else name
    wire = {"name": public, "description": description, "inputSchema": schema}
    return Descriptor("tool", public, wire, belongs_to=(server, own) if own else None)


def tools_of(*names: str) -> dict[str, Descriptor]:
    return {name: tool(name) for name in names}


@pytest.fixture(scope="module")
def many() -> dict[str, Descriptor]:
    """Return 249 tools like those of well-known servers: name, description, arguments."""
    lines = Path(__file__).with_name("tools.txt").read_text("utf-8").splitlines()
    found = (tool(*(part.strip() for part in line.split("|"))) for line in lines)
    return {one.name: one for one in found}


@pytest.fixture(scope="module")
def search(many: dict[str, Descriptor]) -> ToolSearch:
    return ToolSearch(many)


def names(search: ToolSearch, query: str, limit: int = 3) -> list[str]:
    return [one["name"] for one in search.search(query, limit)["tools"]]


@pytest.mark.parametrize("query", WANTED)
def test_the_tool_that_was_meant_is_among_the_first_three(search: ToolSearch, query: str) -> None:
    assert WANTED[query] in names(search, query)


@pytest.mark.parametrize("name", ["aws_s3__createPresignedUrl", "github__add_issue_comment", "jq__jq", "git__blame"])
def test_a_tool_is_found_first_by_its_own_name(search: ToolSearch, name: str) -> None:
    assert names(search, name, 1) == [name]
    assert names(search, name.replace("_", " "), 1) == [name]


def test_a_search_of_many_tools_is_quick(many: dict[str, Descriptor]) -> None:
    thousand = {
        f"{name}{copy}": tool(f"{name}{copy}", one.wire["description"]) for copy in "abcd" for name, one in many.items()
    }
    search = ToolSearch(thousand)
    search.search("warm")
    begun = time.thread_time()
    for query in WANTED:
        search.search(query)
    assert (time.thread_time() - begun) / len(WANTED) < 0.05


def test_arguments_are_found_by_name_description_and_choice_also_inside_others() -> None:
    inner = {"type": "object", "properties": {"altitude": {"enum": ["stratosphere", 5]}, "strange": {"enum": 5}}}
    schema = {
        "type": "object",
        "properties": {"callsign": {"description": "registration of the aeroplane"}, "position": inner, "odd": True},
        "anyOf": [],
    }
    wire = {"name": "track", "inputSchema": schema, "annotations": {"title": "Follow a flight"}}
    search = ToolSearch({"track": Descriptor("tool", "track", wire), **tools_of("other", "third")})
    for query in ("callsign", "aeroplanes", "altitude", "stratosphere", "following"):
        assert names(search, query) == ["track"]
    assert set(search.search("track")["tools"][0]) == {"name", "inputSchema", "annotations"}


def test_a_schema_without_an_end_is_not_followed_to_it() -> None:
    schema: dict[str, object] = {"type": "object"}
    schema["properties"] = {"again": schema}
    assert searchable_texts({"name": "x", "inputSchema": schema})["arguments"].split() == ["again"] * 5


def test_a_listing_keeps_and_shows_by_pattern() -> None:
    """`include` and `exclude` decide which tools exist, `search` and `always` which a list shows."""
    tools = tools_of("a.get", "a.set", "b.get", "b.Get")
    listing = Listing.of({"search": True, "always": ["b.[g]et"], "include": ["*.get", "b.*"], "exclude": ["a.*"]})
    kept = listing.select(tools)
    assert list(kept) == ["b.get", "b.Get"]
    assert list(listing.visible(kept)) == [SEARCH, CALL, "b.get"]
    assert list(Listing().visible(tools)) == list(Listing().select(tools)) == list(tools)


def test_search_stays_off_without_tools_or_with_a_tool_of_its_name() -> None:
    tools = tools_of("x", CALL)
    listing = Listing(search=True)
    assert listing.visible(tools) == tools and not listing.is_search_active({})
    (problem,) = listing.problems(tools)
    assert problem.where == "listing.search"


@pytest.mark.parametrize(
    ("text", "path", "words"),
    [
        (b"[]", "", "expected an object"),
        (b'{"search": "yes"}', "search", "expected true or false"),
        (b'{"always": "x"}', "always", "expected an array"),
        (b'{"exclude": [5]}', "exclude.0", "expected text"),
        (b'{"exclude": [""]}', "exclude.0", "expected"),
        (b'{"excludes": []}', "", "did you mean exclude?"),
        (b"{", "", "expected JSON"),
    ],
)
def test_an_invalid_listing_is_reported_with_its_place(text: bytes, path: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_listing(text, "variables/listing")
    assert (caught.value.where, caught.value.path) == ("variables/listing", path)
    assert words in caught.value.expected
    assert parse_listing(None, "x") == parse_listing(b" ", "x") == {}


def test_a_server_reports_faults_of_its_listing(bench: Bench) -> None:
    bench.plug("one", "def call_tool():\n    pass\n", config={"auto_discover": True, "listing": {"search": True}})
    bench.plug("two", "def f():\n    pass\n", config={"listing": {"serach": True}})
    one, two = bench.server("one"), bench.server("two")
    assert list(one.visible_tools) == ["call_tool"]
    assert [problem.where for problem in one.problems] == ["listing.search"]
    assert two.broken is not None and "at listing: unknown field serach (did you mean search?)" in two.broken


def test_a_pattern_without_a_match_is_reported() -> None:
    listing = Listing(always=("x*",), exclude=("y",), include=("*",))
    assert [(one.where, one.reason) for one in listing.problems(tools_of("x"))] == [
        ("listing.exclude", "no tool matches y")
    ]


def test_a_pattern_matches_the_public_and_the_dotted_name() -> None:
    """A listing from the time of dotted names still excludes the same tools."""
    (one,) = [tool("bash.execute")]
    tools = {one.name: one}
    for pattern in ("bash.*", "bash__*", "*.execute", "bash__execute"):
        listing = Listing(exclude=(pattern,))
        assert listing.select(tools) == {} and list(listing.problems(tools)) == []
    assert Listing(exclude=("execute",)).select(tools) == tools


def test_the_description_of_the_search_names_servers_and_tools(many: dict[str, Descriptor]) -> None:
    described = search_descriptors(many)[SEARCH].wire["description"]
    assert "There are 249: of the servers github, gitlab, slack" in described and "more." in described
    assert "There are 2: a, b." in search_descriptors(tools_of("a", "b"))[SEARCH].wire["description"]
    assert len(described) < 700 and MAX_NAMED_SERVERS == 40


def test_a_call_reads_only_where_every_tool_does() -> None:
    reads = Descriptor("tool", "r", {"name": "r", "inputSchema": {}, "annotations": {"readOnlyHint": True}})
    assert search_descriptors({"r": reads})[CALL].wire["annotations"] == {"readOnlyHint": True}
    assert "annotations" not in search_descriptors({"r": reads, **tools_of("w")})[CALL].wire


def test_a_tool_is_found_by_what_it_is_for_in_other_words_and_first_by_its_name(tmp_path: Path) -> None:
    tools = {
        "box__resize": tool("box__resize", "Change the scale of an image."),
        "box__cook": tool("box__cook", "Make a broth."),
        "box__photo_duty": tool("box__photo_duty", "Guard a thing."),
    }
    select(str(make_model(tmp_path)))
    try:
        search = ToolSearch(tools)
        assert names(search, "picture size") == ["box__resize", "box__photo_duty"]
        assert names(search, "cook") == ["box__cook"]
        assert names(search, "photo_duty") == ["box__photo_duty"]
        select("off")
        assert "hint" in ToolSearch(tools).search("soup")
    finally:
        select("")


def test_a_tool_that_a_caller_may_not_see_is_not_near_either(tmp_path: Path) -> None:
    select(str(make_model(tmp_path)))
    try:
        assert names(ToolSearch({"cook": tool("cook", "Make a broth.")}), "photo size") == []
    finally:
        select("")
