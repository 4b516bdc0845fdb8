"""The state of a room, folded from its log: what an entry changes, who may do what, what a policy may say."""
