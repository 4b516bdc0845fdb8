"""What the processes of all hubs on one store share: records in the journal, leases, and which processes live."""
