"""The people who have an account at this hub: invitations, passwords, passkeys and sessions."""
