"""What seed document 000 shows of services that are not MCP servers, as written there: HTTP APIs and object stores.

The hosts and buckets of the document are no one's to test with. So what a user sets leads its names to peers here:
`HTTPS_PROXY` and `SSL_CERT_FILE` (abroad.py), `AWS_ENDPOINT_URL` with keys (a server of the S3 protocol).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest

from patchbay import exit_codes
from tests.cli.https_host import HOST, HttpsHost, run_https_host
from tests.cli.workspace import Json, Workspace
from tests.client.peers import served

pytestmark = pytest.mark.process

GENOMONCOLOGY: Json = {
    "plugin": "http",
    "api": "genomoncology",
    "description": "GenomOncology clinical data API",
    "connection": {
        "base_url": "https://api.genomoncology.com",
        "headers": {"Authorization": "Token ${API_KEY}"},
        "timeout": 60,
    },
    "schema_hash": None,
    "schema_updated": "2025-11-12",
    "endpoints": {
        "alterations": {
            "path": "/alterations",
            "method": "GET",
            "parameters": {"gene": {}, "mutation_type": {}, "limit": {"default": 100}},
            "output_format": "application/json",
            "pagination": {"type": "cursor", "field": "next_cursor"},
            "notes": "Returns paginated results. Use limit=5 for testing.",
        }
    },
    "tested_with": ["alterations?gene=BRAF&limit=5"],
}
"""The document's profile as far as it is JSON (JN-C7): its hash ends in dots, its second reference has no endpoint."""

KEYS = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-west-2"}


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpsHost]:
    with run_https_host(tmp_path_factory.mktemp("abroad")) as found:
        yield found


@pytest.fixture
def far(workspace: Workspace, host: HttpsHost) -> Iterator[Workspace]:
    """A desk from which the document's host is reached, with the document's profile of it."""
    workspace.environment.update(host.environment)
    folder = workspace.home / ".local" / "jn" / "profiles" / "http" / "genomoncology"
    folder.mkdir(parents=True)
    (folder / "_meta.json").write_text(json.dumps(GENOMONCOLOGY))
    yield workspace


def test_the_documents_commands_for_an_http_api_run_as_written(far: Workspace, host: HttpsHost) -> None:
    """JN-54 to JN-57, JN-66: a description explored, URLs read, a profile explored, validated, versioned."""
    explored = json.loads(far.quick('jn profile explore "https://api.genomoncology.com/openapi.json"').out)
    assert [row["path"] for row in explored["discoverable"]["endpoints"]] == ["/alterations", "/trials"]

    (page,) = far.quick('jn cat "https://api.genomoncology.com/alterations?gene=BRAF&limit=5"').records
    assert ([row["gene"] for row in page["results"]], page["total"]) == (["BRAF"] * 5, 16)
    line = 'jn cat "https://api.genomoncology.com/alterations?gene=EGFR&mutation_type=Missense&limit=5"'
    (page,) = far.quick(line).records
    assert {(row["gene"], row["mutation_type"]) for row in page["results"]} == {("EGFR", "Missense")}
    (page,) = far.quick('jn cat "https://api.genomoncology.com/trials?gene=BRAF&phase=PHASE3"').records
    assert page["results"] == [{"gene": "BRAF", "phase": "PHASE3", "id": "NCT3", "signed": False}]
    assert set(host.connects) == {f"{HOST}:443"}

    said = json.loads(far.quick("jn profile explore @genomoncology").out)
    assert (said["service"], [row["name"] for row in said["discoverable"]["endpoints"]]) == (
        "genomoncology",
        ["alterations"],
    )
    # The document's profile describes its endpoints itself: there is nothing of the API to hold it against.
    ended = far.quick("jn profile validate @genomoncology")
    assert (ended.code, ended.out) == (
        exit_codes.OK,
        "@genomoncology: unknown: The profile names no document to compare with\n",
    )
    assert far.quick("jn profile version @genomoncology").out.strip() == said["version_hash"]


def test_a_profile_of_that_api_is_called_with_its_key(far: Workspace) -> None:
    """JN-15, JN-64: the document's `tested_with`, with its header out of the environment; pages become records."""
    rows = far.quick('jn cat "@genomoncology/alterations?gene=BRAF&limit=5"').records
    assert [(row["gene"], row["signed"]) for row in rows] == [("BRAF", True)] * 5


def test_a_url_of_other_data_is_read_by_its_type_or_name_and_a_failure_is_reported(far: Workspace) -> None:
    """JN-36: CSV rows; a status that no MCP server would answer is the failure, another one names both."""
    table = far.quick("jn head -n 1 https://api.genomoncology.com/genes.csv")
    assert table.records == [{"gene": "BRAF", "n": "1"}]
    busy = far.quick("jn cat https://api.genomoncology.com/busy")
    assert busy.code == exit_codes.FAILED
    assert "/busy: HTTP 503: later" in busy.records[0]["message"]


def test_an_mcp_server_over_https_is_reached_by_the_same_means(far: Workspace, host: HttpsHost) -> None:
    """JN-11, JN-70: a plain URL that refuses to be read is an MCP server's; where none is, both are told."""
    before = len(host.connects)
    called = far.quick("jn cat 'mcp+https://api.genomoncology.com/mcp/echo?tool=echo&message=hi'")
    assert (called.code, called.records[0]["text"]) == (exit_codes.OK, "hi\n"), called
    listed = far.quick("jn cat https://api.genomoncology.com/mcp/echo")
    assert (listed.code, listed.err) == (exit_codes.OK, ""), listed
    assert {row["type"] for row in listed.records} <= {"resource"}
    missing = far.quick("jn cat https://api.genomoncology.com/nowhere")
    assert missing.code == exit_codes.UNREACHABLE
    message = missing.records[0]["message"]
    assert "/nowhere: HTTP 404" in message
    assert "/nowhere answers HTTP 404: no MCP server is there" in message
    assert message.count("no MCP server is there") == 1
    assert len(host.connects) > before


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    pattern = r"Running on (http://127\.0\.0\.1:\d+)"
    with served(pattern, "--with", "moto[server]>=5,<6", "moto_server", "-p", "0") as url:
        store = fsspec.filesystem("s3", key="key", secret="secret", endpoint_url=url, skip_instance_cache=True)
        for bucket in ("my-bucket", "my-data-bucket"):
            store.mkdir(bucket)
        store.pipe("my-bucket/data/one.json", b'{"gene": "BRAF"}')
        for day in ("01", "02"):
            store.pipe(f"my-data-bucket/raw-data/2024/{day}.csv", f"gene,day\nBRAF,{day}\n".encode())
        store.pipe("my-data-bucket/processed/summaries/all.json", b'[{"gene": "BRAF", "n": 2}]')
        yield url


def test_the_documents_commands_for_s3_run_as_written(workspace: Workspace, s3: str) -> None:
    """JN-36, JN-54, JN-67: with credentials in the environment, as the document supposes."""
    workspace.environment.update({**KEYS, "AWS_ENDPOINT_URL": s3})
    explored = json.loads(workspace.quick('jn profile explore "s3://my-bucket/data/"').out)
    assert explored["discoverable"]["keys"] == ["my-bucket/data/one.json"]
    raw = workspace.quick('jn cat "s3://my-data-bucket/raw-data/2024/*.csv"').records
    assert [(row["gene"], row["day"]) for row in raw] == [("BRAF", "01"), ("BRAF", "02")]
    (summary,) = workspace.quick('jn cat "s3://my-data-bucket/processed/summaries/*.json"').records
    assert (summary["gene"], summary["n"]) == ("BRAF", 2)


def test_the_profile_of_a_bucket_is_the_documents(workspace: Workspace, s3: str, tmp_path: Path) -> None:
    """JN-64: `structure`, region and credentials; these references read its `tested_with` data."""
    workspace.environment.update({**KEYS, "AWS_ENDPOINT_URL": s3})
    profile = {
        "plugin": "s3",
        "bucket": "my-data-bucket",
        "description": "Production data warehouse",
        "connection": {"region": "us-west-2", "credentials": "${AWS_ACCESS_KEY_ID}/${AWS_SECRET_ACCESS_KEY}"},
        "schema_hash": None,
        "structure": {"processed": {"pattern": "processed/summaries/*.json", "format": "json", "size": "small"}},
        "notes": "Raw data is large (100MB+). Use processed/ for quick access.",
        "tested_with": ["processed/summaries/*.json"],
    }
    assert workspace.quick("jn profile create warehouse", json.dumps(profile)).code == exit_codes.OK
    tested = workspace.quick("jn profile test @warehouse")
    assert (tested.code, "✓ Success" in tested.out) == (exit_codes.OK, True), tested
    assert workspace.quick("jn profile validate @warehouse").out == "@warehouse: valid: Every pattern has objects\n"
