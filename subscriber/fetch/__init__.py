"""Pulls from catalogd: single flight, invalidation fence, revalidation, latency."""
