"""What clients share: errors, the verbs of leases, and batches of requests."""
