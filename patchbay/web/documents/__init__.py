"""Pages of libraries of documents: read, search, compare versions, edit."""
