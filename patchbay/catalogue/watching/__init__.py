"""Import the watched folder into the store: files that are saved or removed there."""
