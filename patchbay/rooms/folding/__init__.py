"""The state of a room, folded from its log: the change by each entry, the rights of members, the form of a policy."""
