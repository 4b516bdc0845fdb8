"""The home page and its search, contents, and the pages of the hub itself: settings, nodes, schedules, variables."""
