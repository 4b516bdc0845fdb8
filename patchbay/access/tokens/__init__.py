"""Access tokens of an outside issuer: this hub as an OAuth 2.1 resource server."""
