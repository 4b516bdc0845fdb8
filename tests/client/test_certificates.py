"""The trusted certificates of a process: loaded once, and again when the variables name others."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchbay.client.certificates import load_certificates
from tests.protocol.webhooks.receiver import make_certificate


def test_the_certificates_are_loaded_once() -> None:
    assert load_certificates() is load_certificates()


def test_other_certificates_are_trusted_when_a_variable_names_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = load_certificates()
    authority, _ = make_certificate(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority))
    assert load_certificates().cert_store_stats()["x509"] == 1
    monkeypatch.undo()
    assert load_certificates() is before
