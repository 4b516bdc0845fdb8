"""A client made of `patchbay.client` for the official suite: `python -m tests.conformance.client URL`.

The suite says by the environment which scenario runs (MCP_CONFORMANCE_SCENARIO), in which revision
(MCP_CONFORMANCE_PROTOCOL_VERSION), and what it takes (MCP_CONFORMANCE_CONTEXT, JSON). A scenario here says what a
user of the client would do: the features that are tested are the client's own.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit
from urllib.request import urlopen

from patchbay.client.addresses.address import parse_address
from patchbay.client.addresses.resolution import resolve_address
from patchbay.client.addresses.targets import ANY_ISSUER, Era, Http, Target
from patchbay.client.auth.configured import choose_sign_in
from patchbay.client.auth.methods import BrowserSignIn, SignIn
from patchbay.client.connection.connection import Connection
from patchbay.client.errors import McpFailure
from patchbay.client.profiles.lookup import Profiles, find_homes
from patchbay.client.sources import skills
from tests.interaction.programs import free_port

METADATA = "https://conformance-test.local/client-metadata.json"
"""The client metadata document that the suite knows; it is not fetched."""

PATIENCE_SECONDS = 120
"""Seconds for one answer: the suite runs up to 48 of these clients at once, on a machine that may be busy."""

Context = Mapping[str, Any]
Scenario = Callable[[str, Context], None]
Json = dict[str, Any]


def answer(method: str, params: Mapping[str, Any]) -> Json:
    """Accept an elicitation with the defaults of its schema (SEP-1034)."""
    if method != "elicitation/create":
        raise McpFailure(-32601, f"no answer to {method}")
    properties = params.get("requestedSchema", {}).get("properties", {})
    return {
        "action": "accept",
        "content": {key: schema["default"] for key, schema in properties.items() if "default" in schema},
    }


def reached(server: Target | str, signin: SignIn | None = None) -> Connection:
    """A connection in the era that the suite runs."""
    modern = os.environ["MCP_CONFORMANCE_PROTOCOL_VERSION"] >= "2026"
    era: Era = "modern" if modern else "legacy"
    return Connection.open(
        Http(server, issuer=ANY_ISSUER) if isinstance(server, str) else server,
        era=era,
        name="patchbay-conformance",
        version="1",
        ask=answer,
        signin=signin,
        timeout=PATIENCE_SECONDS,
    )


def visit(url: str) -> None:
    """What a person with a browser does: follow the redirects to the very end."""
    with urlopen(url, timeout=PATIENCE_SECONDS) as page:
        page.read()


def explore(server: Target | str, context: Context, signin: SignIn | None = None) -> None:
    """List everything and use it: each tool (as the suite says, if it does), each resource, each prompt."""
    with reached(server, signin) as connection:
        tools = connection.list_tools()
        for call in context.get("toolCalls") or [{"name": tool["name"], "arguments": given(tool)} for tool in tools]:
            tried(partial(connection.call_tool, call["name"], call["arguments"]))
        if "resources" in connection.capabilities:
            for resource in connection.list_resources():
                connection.read_resource(resource["uri"])
        if "prompts" in connection.capabilities:
            for prompt in connection.list_prompts():
                connection.get_prompt(prompt["name"])


def given(tool: Json) -> Json:
    """Arguments that a tool's schema asks for."""
    known: Json = {"a": 5, "b": 3}
    required = tool["inputSchema"].get("required", [])
    return {name: known.get(name, "value") for name in required}


def tried(call: Callable[[], object]) -> None:
    """A call that may be refused: what is said of it is shown."""
    try:
        call()
    except McpFailure as problem:
        sys.stderr.write(f"refused: {problem.code} {problem.message}\n")


def keep_schema(url: str, context: Context) -> None:
    """Hand a schema back as it came."""
    with reached(url) as connection:
        schemas = {tool["name"]: tool["inputSchema"] for tool in connection.list_tools()}
        connection.call_tool("json_schema_echo", {"schema": schemas["json_schema_2020_12_tool"]})


def list_skills(url: str, context: Context) -> None:
    """List the skills and read nothing."""
    with reached(url) as connection:
        skills.list_skills(connection)


def load_skills(url: str, context: Context) -> None:
    """Load every skill with all its files; what is not what it should be is refused."""
    with reached(url) as connection:
        for entry in skills.list_skills(connection):
            tried(partial(skills.load_skill, connection, entry))


def write_file(folder: Path, name: str, text: str) -> str:
    """Write what a platform or an operator puts beside the program; return its path."""
    path = folder / name
    path.write_text(f"{text}\n", "utf-8")
    return str(path)


def describe_client(url: str, folder: Path, context: Context) -> Mapping[str, str]:
    """The registration that the suite made beforehand, as keys of an address."""
    if "client_id" not in context:
        return {}
    secret = {"client_secret": "${CLIENT_SECRET}"} if "client_secret" in context else {}
    return {"client_id": context["client_id"], "issuer": context.get("issuer") or issuer_of(url), **secret}


def describe_machine(url: str, folder: Path, context: Context) -> Mapping[str, str]:
    pem = context.get("private_key_pem")
    key = {"client_key": write_file(folder, "key.pem", pem)} if pem else {}
    return {"sign_in": "client-credentials", **describe_client(url, folder, context), **key}


def describe_enterprise(url: str, folder: Path, context: Context) -> Mapping[str, str]:
    return {
        "sign_in": "identity",
        **describe_client(url, folder, context),
        "identity_token_url": context["idp_token_endpoint"],
        "identity_client_id": context["idp_client_id"],
        "id_token_file": write_file(folder, "id_token", context["idp_id_token"]),
    }


def describe_workload(url: str, folder: Path, context: Context) -> Mapping[str, str]:
    file = write_file(folder, "token", context["valid_jwt"])
    return {"sign_in": "workload", **describe_client(url, folder, context), "token_file": file}


WAYS: Mapping[str, Callable[[str, Path, Context], Mapping[str, str]]] = {
    "auth/client-credentials-jwt": describe_machine,
    "auth/client-credentials-basic": describe_machine,
    "auth/enterprise-managed-authorization": describe_enterprise,
    "auth/wif-jwt-bearer": describe_workload,
}
"""The keys of the address, for scenarios in which no person signs in."""


def issuer_of(url: str) -> str:
    """The authorization server that an operator would have been told; the suite tells it by its server only."""
    parts = urlsplit(url)
    with urlopen(f"{parts.scheme}://{parts.netloc}/.well-known/oauth-protected-resource{parts.path}") as answer:
        return str(json.load(answer)["authorization_servers"][0])


def signed_in(scenario: str, url: str, context: Context) -> None:
    """Write the sign-in of the scenario into an address, open it as a command does, and use everything."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        keys = {"issuer": ANY_ISSUER, **WAYS.get(scenario, describe_client)(url, folder, context)}
        text = f"mcp+{url}?" + "&".join(f"launch.{key}={quote(value, safe='')}" for key, value in keys.items())
        environ = {"CLIENT_SECRET": context.get("client_secret", "")}
        target = resolve_address(parse_address(text), Profiles(find_homes(folder, {})), environ).target
        browser = BrowserSignIn(
            folder,
            visit,
            name="patchbay-conformance",
            metadata_url=METADATA,
            port=free_port(),  # many of these clients run at the same time
        )
        explore(target, context, choose_sign_in(target, browser))


SCENARIOS: Mapping[str, Scenario] = {
    "json-schema-2020-12-preservation": keep_schema,
    "sep-2640-client-no-prefetch": list_skills,
    "sep-2640-client-verify-digest": load_skills,
    "sep-2640-client-verify-size": load_skills,
    "sep-2640-client-verify-frontmatter": load_skills,
}
"""What a scenario wants beside signing in and using everything."""


def main(url: str) -> None:
    """Run the scenario that the environment names."""
    scenario = os.environ["MCP_CONFORMANCE_SCENARIO"]
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
    if scenario.startswith("auth/"):
        signed_in(scenario, url, context)
    else:
        SCENARIOS.get(scenario, explore)(url, context)


if __name__ == "__main__":
    main(sys.argv[1])
