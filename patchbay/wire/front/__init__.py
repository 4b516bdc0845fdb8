"""The front of a worker: what works runs on threads as WSGI, what waits lives on one event loop."""
