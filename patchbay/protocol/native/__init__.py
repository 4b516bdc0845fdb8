"""The native streaming interface (Plexus)."""
