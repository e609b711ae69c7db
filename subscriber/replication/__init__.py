"""Follows topics: the hub session, subscriptions, one replica per topic, catalogd's lineage."""
