"""The values of settings: how a row of the table says its default and its limits, and how a text becomes a value."""
