"""Makes typed Python functions of tools: the text by which a script's calls are checked before it runs."""
