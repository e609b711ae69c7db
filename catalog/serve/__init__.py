"""What catalogd answers on its own port: pulls, syncs, orders, and reports of writes."""
