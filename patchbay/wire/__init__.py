"""The transports: HTTP, WebSocket, stdio, and the native interface over each."""
