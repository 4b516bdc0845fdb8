"""The pages of toolsets: a list of chosen and shaped tools, the form that edits one, and its scripts."""
