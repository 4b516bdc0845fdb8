"""The embedded OAuth 2.1 authorization server without HTTP: clients, authorization codes and tokens."""
