"""The pages of servers: their use, source, versions and settings, and what changes them."""
