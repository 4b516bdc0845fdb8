"""The door for `flask --app app` and for other WSGI servers; the application is in `patchbay/app.py`."""

from patchbay.app import create_app

__all__ = ["create_app"]
