"""A log: canonical JSON, envelopes, entries and the contents beside them, appended and verified."""
