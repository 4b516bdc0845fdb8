"""The tests. Fixtures of the scope `package` end with the last test of their folder, which needs an `__init__.py`."""
