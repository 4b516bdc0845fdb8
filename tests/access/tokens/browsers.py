"""A person with a browser at oidc-provider: follows redirects, signs in, and agrees."""

from __future__ import annotations

import html
import re
from urllib.parse import urljoin

import httpx2

MAX_STEPS = 20


def sign_in(url: str, name: str, callback: str) -> str:
    """Open the page of an authorization request and return the URL at `callback` that the browser is led to."""
    with httpx2.Client(timeout=60) as browser:
        response = browser.get(url)
        for _ in range(MAX_STEPS):
            if response.status_code in (302, 303):
                target = urljoin(str(response.url), response.headers["location"])
                if target.startswith(callback):
                    return target
                response = browser.get(target)
                continue
            assert response.status_code == 200, response.text
            form = re.search(
                r'<form[^>]* action="([^"]+)" method="post">.*?name="prompt" value="(\w+)"', response.text, re.S
            )
            assert form is not None, response.text
            fields = {"prompt": form[2]} | ({"login": name, "password": "any"} if form[2] == "login" else {})
            response = browser.post(urljoin(str(response.url), html.unescape(form[1])), data=fields)
    raise AssertionError(f"{url} leads to no end")
