"""The exceptions that the code of an author raised, for the operator; a caller gets type and message at most."""
