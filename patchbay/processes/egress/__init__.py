"""Which hosts a confined program may reach: the list of its configuration, its namespace, and what it asked for."""
