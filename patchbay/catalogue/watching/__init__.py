"""From the watched folder to the store: files that are saved or removed there."""
