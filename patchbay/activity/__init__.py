"""What happened: records of calls, numbers about them, and traces."""
