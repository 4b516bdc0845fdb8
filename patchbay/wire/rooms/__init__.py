"""Rooms as bytes: WebSocket, posted envelopes, event streams and the exported log."""
