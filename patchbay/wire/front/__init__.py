"""The front of a worker: requests run on threads as WSGI, waiting streams and WebSockets live on one event loop."""
