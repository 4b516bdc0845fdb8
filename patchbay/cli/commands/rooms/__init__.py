"""`patchbay room`: the commands for rooms of a hub, here or elsewhere."""
