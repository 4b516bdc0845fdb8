"""The commands of `patchbay` and `jn`, one file for each or for a group."""
