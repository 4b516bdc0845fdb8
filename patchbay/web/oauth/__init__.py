"""The authorization server as HTTP: metadata, registration, consent, tokens and revocation."""
