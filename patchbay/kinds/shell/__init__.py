"""Shell definitions: one script as one tool."""
