"""The audit chain of a hub: one row for each call, each with the CID of the row before it, and signed heads.

Modules: `rows` has the form of rows, `chain` appends them to the store, `verification` checks an exported file,
`checking` checks the chain of a running hub.
"""
