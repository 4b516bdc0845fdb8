"""Events that servers emit, with records, cursors and sources, and the times of schedules."""
