"""What a run writes: rows of figures, the targets that they are held against, tables, pictures and the page."""
