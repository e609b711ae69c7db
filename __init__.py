"""Topicast: a statestore-style topic broadcast of Hive metastore metadata to Spark drivers."""

__version__ = "0.1.0"
