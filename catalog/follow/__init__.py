"""How catalogd follows the metastore: its events, its names, and what no event has told."""
