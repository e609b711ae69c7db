"""Deltas out: modes, backfill, one publisher per hub."""
