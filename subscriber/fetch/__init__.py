"""Fetches tables from catalogd: pulls, their invalidation fence, and revalidation."""
