"""Addresses: what each form means, what is refused and why, and that every text is one or the other."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from patchbay.client.addresses.address import Address, NamedServer, parse_address, parse_naked_mcp_uri
from patchbay.client.addresses.targets import AddressError, Http, Local, Stdio
from patchbay.client.connection.programs.uv_cache import make_offline_target

CID = "bafkreigh2akiscaildcqabsyg3dfr6chu3fgpregiymsck7e7aqa4s52zy"


def test_a_naked_uri_needs_no_profile() -> None:
    """JN-22: launcher, package, command and parameters in one string."""
    found = parse_address("mcp+uvx://biomcp-python/biomcp?command=run&tool=search&gene=BRAF")
    assert found.target == Stdio("uv", ("run", "--with", "biomcp-python", "biomcp", "run"))
    assert (found.operation, found.name, found.arguments) == ("call", "search", {"gene": "BRAF"})


@pytest.mark.parametrize(
    ("rest", "args"),
    [
        ("biomcp-python/biomcp?command=run", ("biomcp-python", "biomcp", "run")),
        ("mcp-server-time/mcp-server-time", ("mcp-server-time", "mcp-server-time")),
        ("mcp-server-time", ("mcp-server-time", "mcp-server-time")),
        ("mcp-server-time==1.2", ("mcp-server-time==1.2", "mcp-server-time")),
        ("mcp[cli]==2.0/mcp?command=run&command=x y", ("mcp[cli]==2.0", "mcp", "run", "x y")),
        ("mcp-server-time?launch.with=mcp<2", ("mcp-server-time", "--with", "mcp<2", "mcp-server-time")),
        ("a/b?launch.with=c==1&command=run&launch.with=d<2", ("a", "--with", "d<2", "--with", "c==1", "b", "run")),
        ("a[x]@1.2.3/b", ("a[x]==1.2.3", "b")),
        ("git+https:%2F%2Fexample.org%2Fa.git/tool", ("git+https://example.org/a.git", "tool")),
    ],
)
def test_uvx_runs_a_package_with_uv(rest: str, args: tuple[str, ...]) -> None:
    """JN-23, JN-C9: executable = second part or the package; words only when given; no implied `run`."""
    assert parse_address(f"mcp+uvx://{rest}").target == Stdio("uv", ("run", "--with", *args))


def test_the_latest_version_is_asked_for_at_the_index() -> None:
    found = parse_address("mcp+uvx://mcp-server-time[x]@latest").target
    words = ("run", "--refresh-package", "mcp-server-time", "--with", "mcp-server-time[x]", "mcp-server-time")
    assert found == Stdio("uv", words)
    assert make_offline_target(found) is None


def test_a_package_is_started_from_the_cache_first() -> None:
    """Issue 12 part 18: neither a script of one's own nor another program is changed."""
    target = parse_address("mcp+uvx://mcp-server-time?launch.arg=--with").target
    assert isinstance(target, Stdio)
    assert make_offline_target(target) == Stdio(
        "uv", ("run", "--offline", "--with", "mcp-server-time", "mcp-server-time", "--with")
    )
    assert make_offline_target(Stdio("uv", ("run", "server.py"))) is None
    assert make_offline_target(Stdio("python", ("run", "--with", "a", "b"))) is None


@pytest.mark.parametrize(
    "text", ["mcp+npx://a?launch.with=b", "mcp+uvx://a?launch.with=", "mcp+uvx://a?launch.with=-r"]
)
def test_further_requirements_are_for_packages_of_pypi(text: str) -> None:
    with pytest.raises(AddressError, match=r"launch\.with"):
        parse_address(text)


@pytest.mark.parametrize(
    ("rest", "args"),
    [
        ("@upstash/context7-mcp@latest", ("-y", "@upstash/context7-mcp@latest")),
        ("server", ("-y", "server")),
        ("server@1.0/other", ("-y", "--package", "server@1.0", "other")),
        ("@a/b/c", ("-y", "--package", "@a/b", "c")),
        ("@a/b?launch.arg=stdio&launch.arg=--x", ("-y", "@a/b", "stdio", "--x")),
    ],
)
def test_npx_takes_scopes_and_versions(rest: str, args: tuple[str, ...]) -> None:
    """JN-24, J-F4: `@scope/name@version` is one package, never an authority."""
    assert parse_address(f"mcp+npx://{rest}").target == Stdio("npx", args)


@pytest.mark.parametrize(("launcher", "script"), [("python", "./my_server.py"), ("node", "./server.js")])
def test_scripts_are_run_where_they_are(launcher: str, script: str) -> None:
    """JN-25, JN-26: relative paths stay relative, home directories and spaces stay as written."""
    assert parse_address(f"mcp+{launcher}://{script}?tool=x").target == Stdio(launcher, (script,))
    assert parse_address(f"mcp+{launcher}://~/a b/{script}").target == Stdio(launcher, (f"~/a b/{script}",))


def test_another_launcher_is_an_error_that_names_it() -> None:
    """JN-27: the launcher is named, and those that there are."""
    with pytest.raises(AddressError, match="'docker' is not known; expected one of uvx, npx, python, node"):
        parse_address("mcp+docker://image")


def test_the_parts_of_a_naked_uri_as_jn_has_them() -> None:
    """JN-28: the configuration, and the parameters with the control keys among them."""
    config, params = parse_naked_mcp_uri("mcp+uvx://biomcp-python/biomcp?command=run&tool=search&gene=A&gene=B")
    assert config == {
        "command": "uv",
        "args": ["run", "--with", "biomcp-python", "biomcp", "run"],
        "transport": "stdio",
    }
    assert params == {"tool": "search", "gene": ["A", "B"]}
    assert parse_naked_mcp_uri("mcp+node://s.js")[1] == {}
    assert parse_naked_mcp_uri("mcp+http://h/x")[0] == {"url": "http://h/x", "transport": "auto"}
    with pytest.raises(AddressError, match="expected an address such as"):
        parse_naked_mcp_uri("@biomcp")


def test_other_keys_are_arguments() -> None:
    """JN-29, JN-C10: `command` is a word of uvx and an argument everywhere else; `arg.` forces an argument."""
    found = parse_address("@desktop-commander/execute?command=ls&arg.tool=a&arg.list=b&arg.arg.x=c&arg.header.y=d")
    assert found.arguments == {"command": "ls", "tool": "a", "list": "b", "arg.x": "c", "header.y": "d"}
    found = parse_address("mcp+npx://x?tool=execute&command=ls")
    assert found.arguments == {"command": "ls"} and found.target == Stdio("npx", ("-y", "x"))
    assert parse_address("mcp+uvx://a?tool=t&arg.command=ls").arguments == {"command": "ls"}


def test_arguments_may_come_as_one_json_object() -> None:
    """JN-C10: `args=` holds a JSON object whose values stay as they are."""
    found = parse_address('@x/t?args={"n": 1, "s": "2"}&n2=3')
    assert found.exact == {"n": 1, "s": "2"}
    assert found.make_call_arguments({"properties": {"s": {"type": "integer"}, "n2": {"type": "integer"}}}) == {
        "n": 1,
        "s": "2",
        "n2": 3,
    }
    for bad in ("args=ls", "args=[1]", "args={}&args={}", 'args={"a":1}&a=2', "args={'a':1}"):
        with pytest.raises(AddressError, match="args="):
            parse_address(f"@x/t?{bad}")


@pytest.mark.parametrize(
    "address",
    [
        "@x?tool=a&list=tools",
        "@x?tool=a&resource=r:x",
        "@x?list=tools&resource=r:x",
        "@x/t?list=tools",
        "@x/t?resource=r:x",
        "@x/t?tool=other",
        "@x?prompt=p&list=prompts",
        "@x?tool=a&tool=b",
        "mcp+node://s.js?tool=a&list=tools",
    ],
)
def test_asking_for_two_things_is_an_error(address: str) -> None:
    """JN-30, JN-C11: no order of precedence; one thing to do, else an error."""
    with pytest.raises(AddressError, match=r"expected one|expected it once|expected one thing"):
        parse_address(address)


def test_the_same_tool_in_path_and_query_is_one() -> None:
    """JN-C11: the exception."""
    assert parse_address("@x/t?tool=t") == parse_address("@x/t")


def test_a_callers_arguments_win_and_repeated_keys_make_a_list() -> None:
    """JN-31, JN-C12: explicit arguments over those of the address."""
    found = parse_address("@x/t?a=1&a=2&b=3")
    assert found.arguments == {"a": ["1", "2"], "b": "3"}
    found = found.with_arguments({"b": "4"}, {"a": [5]})
    assert found.make_call_arguments(None) == {"a": [5], "b": "4"}
    assert found.with_arguments({"a": "6"}).make_call_arguments(None) == {"a": "6", "b": "4"}


@pytest.mark.parametrize(
    ("address", "operation", "name"),
    [
        ("@biomcp/search", "call", "search"),
        ("@biomcp?tool=search", "call", "search"),
        ("@biomcp?list=tools", "list", "tools"),
        ("@biomcp?list=resources", "list", "resources"),
        ("@biomcp?list=all", "list", "all"),
        ("@biomcp?resource=resource://trials/NCT12345", "read", "resource://trials/NCT12345"),
        ("@biomcp?resource=resource%3A%2F%2Fa%2Fb%20c%3Fd", "read", "resource://a/b c?d"),
        ("@biomcp?prompt=plan", "prompt", "plan"),
        ("@biomcp", "none", ""),
        ("@biomcp/a%2Fb", "call", "a/b"),
    ],
)
def test_a_profile_reference_says_what_to_do(address: str, operation: str, name: str) -> None:
    """JN-7, JN-8, JN-9, JN-10, JN-11, JN-C14: path tool, list, tool, resource (percent-decoded), and nothing."""
    found = parse_address(address)
    assert (found.target, found.operation, found.name) == (NamedServer("profile", "biomcp"), operation, name)


def test_prompt_is_an_argument_where_a_tool_is_named() -> None:
    assert parse_address("@x/draw?prompt=a+cat").arguments == {"prompt": "a cat"}
    assert parse_address("mcp+node://s.js?prompt=a&tool=draw").arguments == {"prompt": "a"}


def test_any_command_line_is_an_address() -> None:
    """JN-69: complex launch lines need no profile."""
    line = "uv run --with a --with 'b c' tool --flag=\"x y\" sub"
    expected = Stdio("uv", ("run", "--with", "a", "--with", "b c", "tool", "--flag=x y", "sub"))
    assert parse_address(f"mcp+stdio:{line}?list=tools").target == expected
    assert parse_address(f"mcp+stdio://{line}").target == expected
    found = parse_address("mcp+stdio:tool a%3Fb?env.KEY=${KEY}&launch.cwd=/srv&launch.arg=-v")
    assert found.target == Stdio("tool", ("a?b", "-v"), {"KEY": "${KEY}"}, "/srv")


def test_a_url_is_an_address() -> None:
    """JN-70: plain URLs are taken whole; `mcp+https` has headers, a query of its own, a transport, a tool."""
    assert parse_address("https://h.example:8443/mcp?key=1&x") == Address(Http("https://h.example:8443/mcp?key=1&x"))
    found = parse_address(
        "mcp+https://h/mcp?header.Authorization=Bearer%20${TOKEN}&query.k=a b&launch.transport=sse&tool=t&x=1"
    )
    assert found.target == Http("https://h/mcp?k=a%20b", {"Authorization": "Bearer ${TOKEN}"}, "sse")
    assert (found.name, found.arguments) == ("t", {"x": "1"})
    with pytest.raises(AddressError, match=r"expected mcp\+https://h/mcp\?tool=t"):
        parse_address("https://h/mcp?tool=t")


def test_a_preset_is_named_or_complete() -> None:
    """JN-69: `mcp://preset`, and the form with launcher and package in the query."""
    assert parse_address("mcp://biomcp?tool=search&package=x").target == NamedServer("preset", "biomcp")
    found = parse_address("mcp://biomcp?launcher=uvx&package=biomcp-python&command=run&tool=search&gene=BRAF")
    assert found.target == Stdio("uv", ("run", "--with", "biomcp-python", "biomcp", "run"))
    found = parse_address("mcp://context7?launcher=npx&package=@upstash/context7-mcp@latest&tool=search&library=mcp")
    assert found.target == Stdio("npx", ("-y", "@upstash/context7-mcp@latest"))
    assert found.arguments == {"library": "mcp"}


def test_servers_of_this_hub_are_addresses() -> None:
    assert parse_address("/mcp") == parse_address("/mcp/") == Address(Local(""))
    assert parse_address("/mcp?list=tools").name == "tools"
    assert parse_address("/mcp/echo/echo?text=hi") == Address(Local("echo"), "call", "echo", {"text": "hi"})
    assert parse_address(f"/mcp/echo@{CID}").target == Local(f"echo@{CID}")


def test_a_contract_may_be_named() -> None:
    assert parse_address(f"@x/t?schema={CID}").schema == CID
    with pytest.raises(AddressError, match=r"expected the CID of a contract.*arg\.schema="):
        parse_address("@db/query?schema=public")
    assert parse_address("@db/query?arg.schema=public").arguments == {"schema": "public"}


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("", "not an address"),
        ("biomcp/search", "not an address"),
        ("mcp+uvx:x", r"expected mcp\+uvx://"),
        ("mcp+uvx://", "expected PACKAGE"),
        ("mcp+uvx://a/b/c", "expected PACKAGE or PACKAGE/EXECUTABLE"),
        ("mcp+uvx://--index-url=http:", "expected PACKAGE"),
        ("mcp+uvx://a/--b", "expected an executable"),
        ("mcp+npx://-y", "expected a package"),
        ("mcp+npx://@scope", "expected PACKAGE"),
        ("mcp+npx://a/b/c", "expected PACKAGE"),
        ("mcp+python://-c", "expected the path of a script"),
        ("mcp+node://", "expected the path of a script"),
        ("mcp+stdio:", "expected a command line"),
        ("mcp+stdio:a 'b", "No closing quotation"),
        ("mcp+node://a%00b", "expected text"),
        ("mcp+node://a%ff", "percent-encoded UTF-8"),
        ("mcp+node://a\udcff", "expected text"),
        ("mcp+node://a?header.X=1", r"mcp\+node: header\.X= is not understood here"),
        ("mcp+node://a?env.1=1", r"env\.1= is not understood here"),
        ("mcp+node://a?launch.cwd=a&launch.cwd=b", "one launch.cwd"),
        ("mcp+https://", r"expected HOST"),
        ("mcp+https://h:99999/", r"expected HOST"),
        ("mcp+https://h/a#b", r"fragment"),
        ("mcp+https://h?env.X=1", r"env\.X= is not understood here"),
        ("mcp+https://h?header.X=a%0Ab", r"header\.X= is not understood here"),
        ("mcp+https://h?launch.transport=ws", "expected one of auto, streamable-http, sse"),
        ("http://a b/", "without spaces"),
        ("mcp://", "expected the name of a preset"),
        ("mcp://x?launcher=docker&package=y", "expected launcher="),
        ("mcp://x?env.A=1", "belongs in its row of the presets file"),
        ("@", "expected the name of a profile"),
        ("@../../etc", "expected the name of a profile"),
        ("@x/", "expected one tool"),
        ("@x/a/b", "expected one tool"),
        ("@x?header.A=1", r"belongs in the profile's _meta.json.*arg\.header\.A="),
        ("@x?tool", "expected key=value"),
        ("@x?=1", "expected key=value"),
        ("@x?tool=", "expected a value"),
        ("@x?arg.=1", "expected the name of an argument"),
        ("@x?list=things", "expected one of tools, resources"),
        ("@x?list=tools&a=1", "expected no arguments beside list="),
        ("@x?resource=r:a&a=1", "expected no arguments beside resource="),
        ("/mcp/a b", "expected SERVER"),
        ("/mcp//t", "expected the name of a server"),
        ("/mcp/a@b", "expected SERVER or SERVER@CID"),
        ("/mcp/a?env.X=1", "belongs in the hub's own configuration"),
    ],
)
def test_an_error_in_an_address_names_its_place(address: str, words: str) -> None:
    with pytest.raises(AddressError, match=words):
        parse_address(address)


@pytest.mark.parametrize(
    ("address", "line"),
    [
        ("mcp+stdio:tool --api-key abc --token=def -v?env.KEY=ghi", "KEY=*** tool --api-key '***' '--token=***' -v"),
        ("mcp+https://u:pw@h/x?query.api_key=1&header.A=2&query.b=3", "https://u:***@h/x?api_key=***&b=3 (A: ***)"),
        ("mcp+stdio:tool http://u:pw@h/", "tool 'http://u:***@h/'"),
    ],
)
def test_secrets_are_masked_for_people(address: str, line: str) -> None:
    assert parse_address(address).target.label == line


PIECES = [
    *("mcp+uvx://", "mcp+npx://", "mcp+stdio:", "mcp+https://", "https://", "mcp://", "@", "/mcp", "/", "?", "&", "="),
    *("tool", "list", "prompt", "args", "arg.", "header.", "query.", "launch.", "env.", "%", "%2", "%00", "'", '"'),
    *(
        "[",
        "{",
        "#",
        "\udc80",
        " ",
        "x",
        "launcher=uvx",
        "package=",
        "schema=",
        CID,
        "launch.query=",
        ":",
        ":0",
        "-",
        ".",
    ),
    "launch.transport=sse",
]


@settings(max_examples=600, deadline=None)
@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=4), max_size=9).map("".join))
def test_any_text_is_an_address_or_an_address_error(text: str) -> None:
    try:
        found = parse_address(text)
    except AddressError as problem:
        assert problem.message
        return
    assert parse_address(text) == found
    assert found.target.label and hash(found.target) == hash(parse_address(text).target)
