"""Deltas out: one publisher for each hub."""
