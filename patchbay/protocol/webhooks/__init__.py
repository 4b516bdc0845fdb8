"""Webhooks of events: their subscriptions in the store, the signed requests, and the thread that delivers them."""
