"""Event types of mounted servers that only stream: a buffer in the store gives them the other delivery modes."""
