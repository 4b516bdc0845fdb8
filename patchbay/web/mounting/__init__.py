"""Pages that mount servers: from registries, from pasted configurations, and newer packages of mounted ones."""
