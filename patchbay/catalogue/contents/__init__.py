"""Contents by CID: read permission, incoming links, revocations."""
