"""The servers of the hub: built from names and CIDs, kept up to date, every version still served."""
