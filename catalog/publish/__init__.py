"""Deltas out: backfill, one publisher per hub."""
