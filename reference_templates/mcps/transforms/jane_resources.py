"""The resources of the server `jane`: every document; its templates answer for them."""

from patchbay import jane


def generate_resources(server_name: str, context) -> list:
    """One resource for each document, by address."""
    return jane.listed(context)
