"""Whether a message is admitted: the era of its client, its session, its handshake and its headers."""
