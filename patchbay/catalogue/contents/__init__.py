"""Contents by CID: who may read them, what points at them, and which are revoked."""
