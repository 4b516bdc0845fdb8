"""`patchbay stdio`: a server, or the whole hub, on standard input and output."""
