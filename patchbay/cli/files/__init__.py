"""Files that commands read as arguments and write as results."""
