"""What the processes of all hubs on one store share: records, seals, leases, and which processes live."""
