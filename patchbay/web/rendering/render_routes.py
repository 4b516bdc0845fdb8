"""`POST /render/markdown` and `POST /render/code`: a page sends a text and receives a tree or coloured lines.

The body is text in UTF-8; the answer is JSON, never HTML, so a page inserts no foreign markup. Only pages of the hub
and programs can send the requests; they change nothing and run no code of the text.
"""

from __future__ import annotations

from flask import Blueprint, Response, request

from patchbay.errors import InvalidParams, TooLarge
from patchbay.kind import kind_named
from patchbay.web.rendering.content_kinds import detect_definition_kind
from patchbay.web.rendering.highlighting import MAX_COLOURED_CHARACTERS, colour_lines
from patchbay.web.rendering.markdown import MAX_RENDERED_CHARACTERS, MAX_RENDERING_SECONDS, render_nodes
from patchbay.web.rendering.time_limits import run_within
from patchbay.web.site.answers import json_answer
from patchbay.web.site.site import Site
from patchbay.wire.requests.bodies import read_body
from patchbay.wire.requests.security import check_same_origin
from patchbay.wire.requests.wsgi import request_of


class _RenderRoutesViews:
    def __init__(self, site: Site) -> None:
        self._site = site

    def markdown(self) -> Response:
        """POST /render/markdown: `{"nodes": [...]}`. Raises Refused, InvalidParams, TooLarge, TookTooLong."""
        text = self._read_text("Markdown", MAX_RENDERED_CHARACTERS)
        return json_answer({"nodes": run_within(MAX_RENDERING_SECONDS, lambda: render_nodes(text), "the Markdown")})

    def code(self) -> Response:
        """POST /render/code: `{"language": "python", "lines": [[["t-keyword", "def"], ["", " f():"]], ...]}`.

        The argument `language` is a language or a kind of server. Without it the text is the definition of a server,
        whose kind is detected. Raises Refused, InvalidParams, TooLarge.
        """
        text = self._read_text("code", MAX_COLOURED_CHARACTERS)
        language = request.args.get("language") or kind_named(detect_definition_kind(text)).language
        return json_answer({"language": language, "lines": colour_lines(text, language)})

    def _read_text(self, what: str, max_characters: int) -> str:
        check_same_origin(request.headers)
        body = read_body(request_of(request.environ), self._site.settings.body_limit)
        try:
            text = body.decode("utf-8")
        except UnicodeDecodeError as problem:
            raise InvalidParams(f"{what} must be text in UTF-8; byte {problem.start} is not") from problem
        if len(text) > max_characters:
            raise TooLarge(f"the {what} has {len(text)} characters; at most {max_characters} are rendered")
        return text


def rendering_blueprint(site: Site) -> Blueprint:
    """The routes `/render/markdown` and `/render/code`."""
    views = _RenderRoutesViews(site)
    rendering = Blueprint("rendering", __name__)
    rendering.add_url_rule("/render/markdown", "markdown", views.markdown, methods=["POST"])
    rendering.add_url_rule("/render/code", "code", views.code, methods=["POST"])
    return rendering
