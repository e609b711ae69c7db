"""Compares the objects that catalogd holds with those of the metastore."""
