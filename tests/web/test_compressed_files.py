"""Static files are compressed for browsers that accept it; pages are not."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from flask import Flask, send_from_directory
from flask.testing import FlaskClient

from patchbay.web.compressed_files import add_compression

STYLE = "p { color: red }\n" * 200


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "style.css").write_text(STYLE)
    (tmp_path / "icon.png").write_bytes(b"\x89PNG" * 99)
    return tmp_path


@pytest.fixture
def browser(folder: Path) -> FlaskClient:
    app = Flask("small", static_folder=str(folder), static_url_path="/static")
    add_compression(app)
    app.add_url_rule("/page", "page", lambda: "<p>page</p>" * 99)
    app.add_url_rule("/style.css", "own", lambda: send_from_directory(folder, "style.css"))
    return app.test_client()


def test_a_style_sheet_is_compressed_for_a_client_that_accepts_gzip(browser: FlaskClient, folder: Path) -> None:
    for text in (STYLE, STYLE.replace("red", "blue")):
        (folder / "style.css").write_text(text)
        for _ in range(2):
            answer = browser.get("/static/style.css", headers={"Accept-Encoding": "br, gzip;q=0.5"}, buffered=True)
            assert gzip.decompress(answer.data).decode() == text
            assert answer.headers["Content-Encoding"] == "gzip"
            assert answer.content_length == len(answer.data) < len(text) / 5
            assert "Accept-Encoding" in answer.vary


@pytest.mark.parametrize("accepted", ["", "br", "gzip;q=0", "identity"])
def test_a_client_that_does_not_accept_gzip_gets_the_plain_file(browser: FlaskClient, accepted: str) -> None:
    answer = browser.get("/static/style.css", headers={"Accept-Encoding": accepted}, buffered=True)
    assert answer.text == STYLE
    assert "Content-Encoding" not in answer.headers
    assert "Accept-Encoding" in answer.vary


def test_an_entity_tag_of_either_form_validates_the_file(browser: FlaskClient) -> None:
    plain = browser.get("/static/style.css", buffered=True).headers["ETag"]
    packed = browser.get("/static/style.css", headers={"Accept-Encoding": "gzip"}, buffered=True).headers["ETag"]
    assert packed == f"W/{plain}"
    for tag in (plain, packed):
        headers = {"Accept-Encoding": "gzip", "If-None-Match": tag}
        assert browser.get("/static/style.css", headers=headers, buffered=True).status_code == 304


@pytest.mark.parametrize("path", ["/page", "/style.css", "/static/icon.png", "/static/absent.css"])
def test_pages_and_pictures_are_not_compressed(browser: FlaskClient, path: str) -> None:
    assert "Content-Encoding" not in browser.get(path, headers={"Accept-Encoding": "gzip"}, buffered=True).headers
