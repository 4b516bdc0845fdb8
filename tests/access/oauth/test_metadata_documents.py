"""Metadata documents of clients: fetched once, and refused when the address or the answer is hostile."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from patchbay.access.oauth import metadata_documents as module
from patchbay.access.oauth.metadata_documents import BadDocument, MetadataDocuments, check_document_url
from tests.access.oauth.document_server import BODIES, CHANGES, HOST, DocumentServer


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DocumentServer]:
    server = DocumentServer(tmp_path_factory.mktemp("documents"))
    yield server
    server.close()


@pytest.fixture
def documents(server: DocumentServer, monkeypatch: pytest.MonkeyPatch) -> MetadataDocuments:
    monkeypatch.setenv("SSL_CERT_FILE", str(server.certificate))
    return MetadataDocuments((HOST,))


def test_a_document_is_fetched_once(documents: MetadataDocuments, server: DocumentServer) -> None:
    url = server.url("/good/client.json")
    before = len(server.requests)
    clients = [documents.load(url) for _ in range(5)]
    assert len(server.requests) == before + 1
    assert {client.id for client in clients} == {url}
    assert clients[0].redirect_uris == ("http://127.0.0.1/callback", "http://localhost/callback")
    assert (clients[0].host, clients[0].label) == (f"{HOST}:{server.port}", url)


@pytest.mark.parametrize("kind", [*CHANGES, *BODIES, "redirect", "missing", "huge", "compressed"])
def test_a_hostile_document_is_refused_and_asked_for_once(
    documents: MetadataDocuments, server: DocumentServer, kind: str
) -> None:
    url = server.url(f"/{kind}-client.json")
    before = len(server.requests)
    for _ in range(3):
        with pytest.raises(BadDocument):
            documents.load(url)
    assert server.requests[before:] == [f"/{kind}-client.json"]


@pytest.mark.parametrize("kind", ["slowhead", "slowbody"])
def test_a_document_that_never_ends_is_given_up(
    documents: MetadataDocuments, server: DocumentServer, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FETCH_SECONDS", 0.5)
    with pytest.raises(BadDocument, match=r"did not arrive within 0\.5 seconds|cannot be fetched"):
        documents.load(server.url(f"/{kind}-client.json"))


def test_a_certificate_that_is_not_trusted_is_refused(server: DocumentServer) -> None:
    with pytest.raises(BadDocument, match="cannot be fetched"):
        MetadataDocuments((HOST,)).load(server.url("/good/client.json"))


PRIVATE = [
    "https://localhost/client.json",
    "https://127.0.0.1/client.json",
    "https://127.1/client.json",
    "https://2130706433/client.json",
    "https://0x7f000001/client.json",
    "https://0/client.json",
    "https://10.0.0.1/client.json",
    "https://192.168.1.1/client.json",
    "https://172.16.0.1/client.json",
    "https://169.254.169.254/latest/meta-data",
    "https://100.64.0.1/client.json",
    "https://224.0.0.1/client.json",
]


@pytest.mark.parametrize("url", PRIVATE)
def test_a_document_at_a_private_address_is_not_asked_for(url: str) -> None:
    with pytest.raises(BadDocument, match="not a public address"):
        MetadataDocuments().load(url)


def test_a_name_that_leads_to_a_private_address_is_not_asked_for(server: DocumentServer) -> None:
    before = len(server.requests)
    with pytest.raises(BadDocument, match="not a public address"):
        MetadataDocuments().load(server.url("/good/client.json"))
    assert len(server.requests) == before


URLS = [
    "http://client.example/client.json",
    "https://client.example",
    "https://client.example/",
    "https://client.example/a/../client.json",
    "https://client.example/./client.json",
    "https://client.example/%2e%2e/client.json",
    "https://client.example/client.json#x",
    "https://client.example/client.json?x=1",
    "https://user@client.example/client.json",
    "https://client.example\\@evil.example/client.json",
    "https://[::1]/client.json",
    "https://client.example:99999999/client.json",
    "https://client.example/cli ent.json",
    "https://client.example/" + "x" * 400,
    "file:///etc/passwd",
    "",
]


@pytest.mark.parametrize("url", URLS)
def test_an_id_has_to_be_an_https_url_with_a_path(url: str) -> None:
    """draft-ietf-oauth-client-id-metadata-document, section 3."""
    with pytest.raises(BadDocument, match="expected a client_id"):
        check_document_url(url)


def test_the_cache_has_a_limit(
    documents: MetadataDocuments, server: DocumentServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_CACHED", 2)
    for number in range(4):
        documents.load(server.url(f"/good-{number}"))
    before = len(server.requests)
    documents.load(server.url("/good-3"))
    assert len(server.requests) == before
    documents.load(server.url("/good-0"))
    assert len(server.requests) == before + 1
