"""The resources of the server `jane`: every document; its templates answer for them."""

from patchbay.documents.jane import listed


def generate_resources(server_name: str, context) -> list:
    """One resource for each document, by address."""
    return listed(context)
