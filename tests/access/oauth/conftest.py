"""A hub in shared mode that runs as a program, a person with an account, and a server of metadata documents."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.access.oauth.document_server import HOST, DocumentServer
from tests.person_at_browser import PersonAtBrowser
from tests.serving.running import Hub, running

ECHO = '''"""Echo."""

import time


def echo(text: str) -> str:
    """Echo."""
    return text


def count(context, to: int) -> str:
    """Count slowly."""
    for number in range(to):
        context.progress(number, to)
        time.sleep(0.2)
    return f"counted to {to}"
'''


@pytest.fixture(scope="package")
def documents(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DocumentServer]:
    server = DocumentServer(tmp_path_factory.mktemp("documents"))
    yield server
    server.close()


@pytest.fixture(scope="package")
def hub(tmp_path_factory: pytest.TempPathFactory, documents: DocumentServer) -> Iterator[Hub]:
    folder = tmp_path_factory.mktemp("shared")
    (folder / "servers").mkdir()
    (folder / "servers" / "echo.py").write_text(ECHO)
    settings = ["--access", "shared", "--client-hosts", HOST, "--token-minutes", "0.05"]
    with ExitStack() as stack:
        # For this hub alone: other tests of this process need the certificates of the machine.
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("SSL_CERT_FILE", str(documents.certificate))
            hub = stack.enter_context(running(folder, *settings))
        yield hub
        assert hub.end() == 0


@pytest.fixture
def person(hub: Hub, request: pytest.FixtureRequest) -> Iterator[PersonAtBrowser]:
    name = "p" + "".join(each if each.isalnum() else "-" for each in request.node.name.lower())[-40:] + "z"
    person = PersonAtBrowser(hub, name)
    yield person
    person.close()
