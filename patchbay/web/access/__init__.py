"""Pages about access: keys and grants, for the operator and other administrators."""
