"""The lists of a server behind the hub: what it may list, its last valid lists in the store, and those not read yet."""
