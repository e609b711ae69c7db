"""Turns changes into calls on Spark's caches."""
