"""Shell completion: the scripts of each shell, and the values that they offer."""
