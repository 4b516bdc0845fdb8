"""Pages that show what the hub serves and what happened."""
