"""Streams of messages: listening, replay and the mailboxes of 2024-11-05."""
