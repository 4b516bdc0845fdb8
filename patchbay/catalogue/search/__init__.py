"""Full-text search, also by meaning, over the tools of one server and over everything that the hub offers."""
