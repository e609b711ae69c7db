"""catalogd: follows a Hive metastore, publishes deltas to hubs, and serves pulls.

Imports `topics` only; the metastore's libraries stay in `metastore/`.
"""
