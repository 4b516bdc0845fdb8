"""One server as the hub has it: its row in the store, its descriptors and handler, and the tools that clients see."""
