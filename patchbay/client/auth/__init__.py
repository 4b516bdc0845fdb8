"""Signing in to servers with OAuth 2.1, and keeping the tokens."""
