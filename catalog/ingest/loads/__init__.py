"""Reads of the metastore: which tables are read when, by whom, and how results are written."""
