"""Turns data into what pages show: templates, colours, comparisons, plots and snippets."""
