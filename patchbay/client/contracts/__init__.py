"""Contracts: the tools that are expected of a server, and how a server has drifted from them."""
