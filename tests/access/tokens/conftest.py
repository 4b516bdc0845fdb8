"""One issuer for all tests of tokens; tests that rotate its keys or stop it start their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.access.tokens.issuers import Issuer, running_issuer


@pytest.fixture(scope="package")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Issuer]:
    with running_issuer(tmp_path_factory.mktemp("issuer") / "one") as issuer:
        yield issuer
