"""The comparison of the metastore, of hubs and of a subscriber with catalogd's store."""
