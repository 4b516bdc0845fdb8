"""The resources of the server `arbor`: every active tree and its head; its templates answer for them."""

_MOST = 5000


def generate_resources(server_name: str, context) -> list:
    """Two resources for each tree that is active, the newest trees first."""
    trees = context.state.several(context.state.starting("tree/")).values()
    active = sorted((tree for tree in trees if tree["released_at"] is None), key=lambda tree: -tree["made"])
    return [entry for tree in active[:_MOST] for entry in _entries(tree)]


def _entries(tree: dict) -> list[dict]:
    uri, metadata = f"arbor://tree/{tree['id']}", tree["metadata"] or {}
    name = metadata["name"] if isinstance(metadata.get("name"), str) else tree["id"]
    return [
        {
            "uri": uri,
            "name": tree["id"],
            "title": name,
            "description": "A conversation tree: who holds it, and which node comes after which.",
            "mimeType": "application/json",
        },
        {
            "uri": f"{uri}/head",
            "name": f"{tree['id']}-head",
            "title": f"{name}: head",
            "description": "The newest node of the tree: where the conversation went on last.",
            "mimeType": "application/json",
        },
    ]
