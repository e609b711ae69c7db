"""The hub: holds the topics in memory, broadcasts deltas, answers catch-up, keeps membership.

Imports `topics` only, and never decodes a value.
"""
