"""The zoo of servers, and the certificate of a proxy, for these tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.access.oauth.document_server import make_certificate
from tests.sample_servers import zoo

__all__ = ["zoo"]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The certificate of the public name, and its key."""
    return make_certificate(tmp_path_factory.mktemp("certificate"))
