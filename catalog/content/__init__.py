"""Which content catalogd holds: loads in the background, unloads, and backfill for a new mode."""
