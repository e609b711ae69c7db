"""Where Spark finds the data source ``topicast``: it looks for modules whose names begin so."""

from topicast.pipeline.datasource.source import TopicastSource as DefaultSource
from topicast.pipeline.datasource.source import register

__all__ = ["DefaultSource", "register"]
