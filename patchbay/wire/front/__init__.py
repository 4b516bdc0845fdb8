"""The front of a worker: requests run on threads, waiting streams and WebSockets live on one event loop."""
