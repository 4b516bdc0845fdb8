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
        return follow(browser, url, name, callback)


def follow(browser: httpx2.Client, url: str, name: str, end: str) -> str:
    """Open a page of the provider, send its forms, and return the URL that begins with `end`, without opening it.

    A form asks for a name, for consent, or for a sign-out.
    """
    response = browser.get(url)
    for _ in range(MAX_STEPS):
        if response.status_code in (302, 303):
            target = urljoin(str(response.url), response.headers["location"])
            if target.startswith(end):
                return target
            response = browser.get(target)
            continue
        assert response.status_code == 200, response.text
        form = re.search(r'<form[^>]* action="([^"]+)"[^>]*>(.*)', response.text, re.S)
        assert form is not None, response.text
        fields = dict(re.findall(r'name="(\w+)" value="([^"]*)"', form[2]))
        if fields.get("prompt") == "login":
            fields |= {"login": name, "password": "any"}
        if "xsrf" in fields:
            fields["logout"] = "yes"
        response = browser.post(urljoin(str(response.url), html.unescape(form[1])), data=fields)
    raise AssertionError(f"{url} leads to no end")
