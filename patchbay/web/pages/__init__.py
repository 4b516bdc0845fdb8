"""The home page and its search, contents, public documents, and the hub: settings, nodes, schedules, variables."""
