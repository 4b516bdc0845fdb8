"""Which URIs a template of a toolset gives: those that its origin gives for it, without what the toolset excludes."""

from __future__ import annotations

from patchbay.catalogue.reading.resources import ResourceTarget
from patchbay.catalogue.reading.uri_templates import MAX_URI_CHARACTERS, compile_template
from patchbay.descriptors import CHOSEN_TEMPLATES, EXCLUDED, EXCLUDED_TEMPLATES, Descriptor
from patchbay.patterns.uri_spellings import covers_any_spelling, decoded_spellings, is_decodable


def excludes_uri(entry: Descriptor, uri: str) -> bool:
    """Whether a toolset excludes a URI that one of its templates matches.

    Another spelling of an excluded URI is excluded too, because an origin may read both as the same.
    """
    server, target = entry.origins[0].server, entry.target
    patterns, templates = target.get(EXCLUDED, ()), target.get(EXCLUDED_TEMPLATES, ())
    if not patterns and not templates:
        return False
    if len(uri) > MAX_URI_CHARACTERS or any(covers_any_spelling(pattern, server, uri) for pattern in patterns):
        return True
    if not is_decodable(uri):
        return True
    compiled = [compile_template(template).pattern for template in templates]
    return any(pattern.fullmatch(one) for one in decoded_spellings(uri) for pattern in compiled)


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
