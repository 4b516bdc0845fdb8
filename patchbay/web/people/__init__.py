"""Pages of people: sign-in, invitations, one's own account, and the list of accounts for the operator."""
