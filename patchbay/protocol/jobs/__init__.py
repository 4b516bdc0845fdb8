"""Jobs: calls of tools that any process of all hubs on a store runs, as tasks of their callers."""
