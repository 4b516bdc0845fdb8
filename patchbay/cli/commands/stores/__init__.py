"""The commands `patchbay store copy` and `patchbay store migrate`."""
