"""Which URIs a template of a toolset gives: those that its origin gives for it, without what the toolset excludes."""

from __future__ import annotations

from collections.abc import Iterator
from posixpath import normpath
from urllib.parse import unquote

from patchbay.catalogue.reading.resources import ResourceTarget
from patchbay.catalogue.reading.uri_templates import MAX_URI_CHARACTERS, compile_template
from patchbay.descriptors import CHOSEN_TEMPLATES, EXCLUDED, EXCLUDED_TEMPLATES, Descriptor
from patchbay.entry_patterns import covers


def excludes_uri(entry: Descriptor, uri: str) -> bool:
    """Whether a toolset excludes a URI that one of its templates matches.

    A spelling of an excluded URI is excluded too: one with percent-encoding (RFC 3986, section 2.1), with `.` and `..`
    (section 5.2.4) or with empty parts of its path, because an origin may read them as the same.
    """
    server, target = entry.origins[0].server, entry.target
    patterns, templates = target.get(EXCLUDED, ()), target.get(EXCLUDED_TEMPLATES, ())
    if not patterns and not templates:
        return False
    return len(uri) > MAX_URI_CHARACTERS or any(
        any(covers(pattern, server, one) for pattern in patterns)
        or any(compile_template(template).pattern.fullmatch(one) for template in templates)
        for one in _spellings(uri)
    )


def gives_chosen(entry: Descriptor, found: ResourceTarget) -> bool:
    """Whether what an origin reads for a URI is among the entries that the toolset of a template has chosen.

    The origin runs its first template that matches; a resource that it lists by itself is chosen apart.
    """
    one = found.descriptor
    if one is None or found.server.name != entry.origins[0].server:
        return True  # the hub itself, and a tool, depend on the rights of the caller
    if one.kind == "resource":
        return found.uri not in found.server.resources
    return one.kind != "template" or one.name in entry.target.get(CHOSEN_TEMPLATES, (entry.origins[0].name,))


def _spellings(uri: str) -> Iterator[str]:
    decoded = unquote(uri)
    yield from dict.fromkeys((uri, decoded))
    scheme, mark, rest = decoded.partition("://")
    if mark:
        yield f"{scheme}://{normpath('/' + rest.lstrip('/')).lstrip('/')}"
