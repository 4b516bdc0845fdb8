"""Channels for messages in both directions, standard input and output before all: lines, conversations, their threads."""
