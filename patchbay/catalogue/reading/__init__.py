"""Reading resources and prompts."""
