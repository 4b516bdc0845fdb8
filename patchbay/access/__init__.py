"""Who is calling, and the hub's secrets that prove it."""
