"""Pages of people: sign-in, invitations, the own account, and the list of accounts for the operator."""
