"""Changes of servers that an operator makes: switch on and off, restart, remove, restore; and which servers begin."""
