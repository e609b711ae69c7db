"""Answers on catalogd's own port: pulls, syncs, orders, and reports of writes."""
