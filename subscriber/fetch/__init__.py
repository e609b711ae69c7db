"""Fetches tables from catalogd: pulls, their invalidation fence, revalidation, and latency."""
