"""Make servers from definitions and configurations: entries, transforms, entries of other servers, previews."""
