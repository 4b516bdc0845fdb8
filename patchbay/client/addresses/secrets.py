"""Which values of a configuration are secrets: by their name, and by their form.

`is_secret_name` looks at the name alone and hides values from people. `is_secret` looks at the value too and decides
what may stand in a definition: paths, switches, numbers, identifiers and URLs without a password may.
Sources of the forms: the documented prefixes of GitHub, GitLab, Slack, AWS, Google, OpenAI, Anthropic, Stripe, npm,
PyPI, Hugging Face, SendGrid, Notion, Linear, Figma and others; RFC 7519 (JWT); RFC 7468 (PEM); RFC 6750 (Bearer).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from urllib.parse import parse_qsl, urlsplit

_SECRET = re.compile(r"(?i)(secret|token|passw|pwd|credential|auth|bearer|api[-_]?key|access[-_]?key|private[-_]?key)")
_SECRET_WORDS = re.compile(r"(?i)^(key|sig|signature|pass)$")

_SECRET_NOUNS = re.compile(
    r"apikey|auth|authorization|authentication|bearer|cookie|cookies|credential|credentials|jwt|key|keys|mnemonic"
    r"|pass|passcode|passphrase|passwd|password|passwords|pat|psk|pw|pwd|secret|secrets|session|sig|signature"
    r"|token|tokens|webhook"
)
"""Last words of names whose values are secrets, unless the value is a path, a switch or the like."""

_WEAK_NOUNS = re.compile(r"auth|authentication|keys|session|tokens|webhook")
"""Of these, words that also name a setting: a short word of letters or a number under them is no secret."""

_STRONG_NOUNS = re.compile(r"apikey|credential|credentials|jwt|password|secret|token")
"""Words that make a name secret at any place before a last word that is unknown, such as SECRET_VALUE."""

_SETTINGS = re.compile(
    r"alg|algorithm|audience|backend|bucket|budget|cache|callback|class|count|days|dir|directory|domain|email"
    r"|enabled|encoding|endpoint|endpoints|env|environment|expiry|expires|file|flow|folder|format|header|host|id"
    r"|ids|issuer|length|level|limit|location|max|method|min|minutes|mode|ms|name|needed|path|port|prefix|profile"
    r"|provider|realm|redirect|region|required|scheme|scope|scopes|seconds|server|size|storage|store|strategy"
    r"|suffix|tenant|timeout|ttl|type|types|uri|url|user|username|var|variable|version"
)
"""Last words that name a setting of a secret, such as TOKEN_FILE: its value is not a secret."""

_OF_A_KEY = re.compile(r"cache|foreign|group|index|partition|primary|public|publishable|shortcut|sort")
"""Words before `key` that make a name harmless."""

_JOINED = re.compile(r"(?i)(passwd|password|passphrase|secret|apikey|accesskey|privatekey|authtoken|accesstoken)s?$")
"""Ends of names that are written as one word, such as PGPASSWORD."""

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_SWITCH = re.compile(r"(?i)(true|false|yes|no|on|off|none|null|enabled?|disabled?|auto|default)")
_NUMBER = re.compile(r"[-+]?[0-9]+([.,:][0-9]+)*[a-zA-Z%]{0,3}")
_PATH = re.compile(
    r"(~|\.{1,2}|[A-Za-z]:)[/\\].*|[/\\]{2}\w.*"
    r"|/(app|config|data|etc|home|media|mnt|opt|path|private|root|run|secrets?|srv|tmp|Users|usr|var|Volumes"
    r"|workspaces?)/.*|/[^/].*\.\w{1,8}"
)
_KNOWN = re.compile(
    r"(?<![A-Za-z0-9])("
    r"sk-[A-Za-z0-9_-]{16,}|[sr]k_(live|test)_[A-Za-z0-9]{8,}|whsec_[A-Za-z0-9]{8,}|gh[opsur]_[A-Za-z0-9]{8,}"
    r"|github_pat_\w{8,}|gl(pat|dt|rt)-[\w-]{8,}|xox[abceoprs]-[\w-]{8,}|xapp-[\w-]{8,}|(AKIA|ASIA)[A-Z0-9]{16}"
    r"|AIza[\w-]{20,}|ya29\.[\w-]{8,}|GOCSPX-[\w-]{8,}|npm_[A-Za-z0-9]{20,}|pypi-[\w-]{16,}|hf_[A-Za-z0-9]{16,}"
    r"|SG\.[\w-]{8,}\.[\w-]{8,}|shp(at|ca|pa|ss)_[A-Za-z0-9]{8,}|do[op]_v1_\w{16,}|lin_(api|oauth)_\w{8,}"
    r"|(ntn|secret)_[A-Za-z0-9]{16,}|fig[duo]_[\w-]{8,}|pplx-[\w-]{8,}|tvly-[\w-]{8,}|fc-[0-9a-f]{16,}|BSA[\w-]{20,}"
    r"|dapi[0-9a-f]{32}|sb[ps]_\w{20,}|sntry[su]_[\w-]{8,}|apify_api_\w{8,}|r8_\w{16,}|gsk_\w{16,}|xai-\w{16,}"
    r"|eyJ[\w-]{8,}\.[\w-]{4,}\.[\w-]*|ATATT[\w-]{8,}|NRAK-\w{8,}|AGE-SECRET-KEY-\w+|nsec1\w{20,}"
    r")"
)
_CARRIED = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY"
    r"|(?i:\bbearer +\S|\bbasic +[A-Za-z0-9+/]{8,}=*(?![A-Za-z]))"
    r"|(?i:(?<![\w-])(authorization|[\w-]*(password|passwd|pwd|secret|api[-_]?key|access[-_]?key|accountkey|_token))[\"']?"
    r"\s*[:=]\s*[\"']?[^\s\"',;&]{3,})"
)
"""Secrets inside a text: a private key, a scheme of HTTP with its credentials, a pair of a name and a value."""

_RANDOM = re.compile(r"[A-Za-z0-9+/_=-]{24,}")
_UUID = re.compile(r"(?i)[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_MIN_BITS_OF_RANDOM = 3.2
"""Bits of each character, by the frequencies in the text itself. Base64 of 24 random characters has about 4.2."""


def is_secret_name(name: str) -> bool:
    """Whether a value under this name (an option, a header, a query key) is hidden from people."""
    bare = name.lstrip("-")
    return bool(_SECRET.search(bare) or _SECRET_WORDS.match(bare))


def is_url_secret(name: str, value: str) -> bool:
    """Whether a pair of a URL's query is a secret: by its name alone too, because URLs are shown and logged."""
    return bool(value) and (is_secret_name(name) or is_evident_secret(name, value))


def is_secret(name: str, value: str) -> bool:
    """Whether a value is likely a secret, so that an import does not write it into a definition.

    `name` is that of a variable, a header, an option or a query key; empty for a value without one. An empty
    value is no secret. In doubt, a value under the name of a secret counts as one. Under another name, a long random
    text counts too, unless the name is that of an identifier.
    """
    last = _words(name)[-1:]
    return is_evident_secret(name, value) or (last not in (["id"], ["ids"]) and _is_random(value.strip()))


def is_evident_secret(name: str, value: str) -> bool:
    """Whether a value is a secret by its name or by a form that only secrets have: no definition may hold it."""
    text = value.strip()
    if not text:
        return False
    if _KNOWN.search(text) or _CARRIED.search(text) or _is_secret_url(text):
        return True
    words = _words(name)
    last = words[-1] if words else ""
    if last == "webhook" or words[-2:] == ["webhook", "url"]:
        return not _is_setting(text)
    if _SECRET_NOUNS.fullmatch(last) or _JOINED.search(name):
        if last == "key" and words[-2:-1] and _OF_A_KEY.fullmatch(words[-2]):
            return False
        is_short = bool(_NUMBER.fullmatch(text)) or (text.isalpha() and len(text) < 16)
        return not (_is_setting(text) or _is_plain_url(text) or (_WEAK_NOUNS.fullmatch(last) and is_short))
    if not _SETTINGS.fullmatch(last) and any(map(_STRONG_NOUNS.fullmatch, words)):
        return not (_is_setting(text) or _is_plain_url(text) or _NUMBER.fullmatch(text))
    return False


def _words(name: str) -> list[str]:
    """Return the words of a name such as `X-API-Key`, `apiKey` or `DB_PASSWORD_2`, in lower case, without numbers."""
    return [word.lower() for word in _WORD.findall(name) if not word.isdigit()]


def _is_setting(text: str) -> bool:
    return bool(_SWITCH.fullmatch(text) or _PATH.fullmatch(text))


def _is_secret_url(text: str) -> bool:
    """Whether a text is a URL with a password, a key as its user, or a secret in its query."""
    if "://" not in text:
        return False
    try:
        parts = urlsplit(text)
        user, password = parts.username or "", parts.password
    except ValueError:
        return "@" in text
    if password or _is_random(user) or (len(user) >= 16 and user.isalnum() and not user.isalpha()):
        return True
    return any(is_secret(key, value) for key, value in parse_qsl(parts.query))


def _is_plain_url(text: str) -> bool:
    return bool(re.match(r"(?i)[a-z][a-z0-9+.-]*://\S+$", text)) and not _is_secret_url(text)


def _is_random(text: str) -> bool:
    """Whether a text looks like one that a machine drew: long, of one word, of letters and digits that do not repeat.

    A path, a host, a UUID and words with hyphens are not.
    """
    if not _RANDOM.fullmatch(text) or _UUID.fullmatch(text) or _PATH.fullmatch(text):
        return False
    parts = re.split(r"[-_/+=]", text)
    longest = max(parts, key=len)
    has_both = any(one.isdigit() for one in longest) and any(one.isalpha() for one in longest)
    return len(longest) >= 16 and has_both and _bits(longest) >= _MIN_BITS_OF_RANDOM


def _bits(text: str) -> float:
    """Return the entropy of the characters of a text, in bits for each."""
    return -sum(count / len(text) * math.log2(count / len(text)) for count in Counter(text).values())
