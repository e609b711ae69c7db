"""Writes that drivers reported: where their files lie, and which tables they change."""
