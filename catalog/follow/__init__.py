"""Follows the metastore: its events, its names, and the changes of which it has no event."""
