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
from urllib.parse import urlsplit
from urllib.request import urlopen

from patchbay.client.addresses.targets import ANY_ISSUER, Era, Http
from patchbay.client.auth.client_assertions import make_token_exchanger
from patchbay.client.auth.oauth import BrowserSignIn, ClientCredentials, IdentityAssertion, SignIn, WorkloadIdentity
from patchbay.client.connection.connection import Connection
from patchbay.client.errors import McpFailure
from patchbay.client.sources import skills
from tests.interaction.programs import free_port

METADATA = "https://conformance-test.local/client-metadata.json"
"""The client metadata document that the suite knows; nobody fetches it."""

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


def reached(url: str, signin: SignIn | None = None) -> Connection:
    """A connection in the era that the suite runs."""
    modern = os.environ["MCP_CONFORMANCE_PROTOCOL_VERSION"] >= "2026"
    era: Era = "modern" if modern else "legacy"
    return Connection.open(
        Http(url, issuer=ANY_ISSUER),
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


def explore(url: str, context: Context, signin: SignIn | None = None) -> None:
    """List everything and use it: each tool (as the suite says, if it does), each resource, each prompt."""
    with reached(url, signin) as connection:
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


def person(folder: Path, context: Context) -> SignIn:
    return BrowserSignIn(
        folder,
        visit,
        name="patchbay-conformance",
        metadata_url=METADATA,
        client_id=context.get("client_id"),
        client_secret=context.get("client_secret"),
        port=free_port(),  # many of these clients run at the same time
    )


def machine(url: str, folder: Path, context: Context) -> SignIn:
    return ClientCredentials(
        folder,
        context["client_id"],
        context.get("issuer") or issuer_of(url),
        context.get("client_secret"),
        context.get("private_key_pem"),
        context.get("signing_algorithm", "ES256"),
    )


def enterprise(url: str, folder: Path, context: Context) -> SignIn:
    assertion = make_token_exchanger(context["idp_token_endpoint"], context["idp_client_id"], context["idp_id_token"])
    return IdentityAssertion(folder, context["client_id"], context["client_secret"], issuer_of(url), assertion)


def workload(url: str, folder: Path, context: Context) -> SignIn:
    async def assertion(audience: str) -> str:
        return str(context["valid_jwt"])

    return WorkloadIdentity(folder, context["client_id"], issuer_of(url), assertion)


def issuer_of(url: str) -> str:
    """The authorization server that an operator would have been told; the suite tells it by its server only."""
    parts = urlsplit(url)
    with urlopen(f"{parts.scheme}://{parts.netloc}/.well-known/oauth-protected-resource{parts.path}") as answer:
        return str(json.load(answer)["authorization_servers"][0])


def signed_in(scenario: str, url: str, context: Context) -> None:
    """Sign in as the scenario wants it, then use everything."""
    ways = {
        "auth/client-credentials-jwt": machine,
        "auth/client-credentials-basic": machine,
        "auth/enterprise-managed-authorization": enterprise,
        "auth/wif-jwt-bearer": workload,
    }
    with tempfile.TemporaryDirectory() as name:
        way = ways.get(scenario)
        explore(url, context, way(url, Path(name), context) if way else person(Path(name), context))


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
