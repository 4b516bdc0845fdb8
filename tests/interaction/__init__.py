"""Conversations of each client with one hub that runs until the last of them."""
