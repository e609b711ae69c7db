"""The catalog as a data source of Spark: its databases, tables and partitions as DataFrames."""

from .planning import snapshot_version

__all__ = ["snapshot_version"]
