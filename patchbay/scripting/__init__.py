"""Scripts: Python text of a caller that calls tools, and runs in an interpreter without files and network."""
