"""The pages about the past of the hub: its roots, comparisons, rollbacks, and revocations."""
