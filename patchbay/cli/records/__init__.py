"""Records of commands: read from pipes and files, and written as lines of JSON or, on a terminal, for people."""
