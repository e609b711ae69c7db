"""Pipelines: Spark jobs about a catalog, each a function of a session."""
