"""How servers behind this hub get a credential of each caller: accounts that callers connect, and other ways."""
