"""YAML as version 1.2 reads it: the front matter of documents and of skills, for the hub and for the client."""
