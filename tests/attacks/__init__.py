"""Attacks, most of them on one hub that runs until the last of them."""
