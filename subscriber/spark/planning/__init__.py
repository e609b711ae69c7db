"""Answers reads of Spark's catalog from memory: plans of an attached driver need no metastore."""
