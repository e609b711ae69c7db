"""Hive metastore in, deltas and answers out: versions, store, publisher, pulls.

Imports `topics` only; the metastore's libraries stay in `metastore/`.
"""
