"""Channels for messages in both directions, such as standard input and output: lines, conversations, threads."""
