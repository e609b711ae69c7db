"""The catalog as a data source of Spark: its databases, tables and partitions as DataFrames."""

from .planning import moment

__all__ = ["moment"]
