"""A real Hive metastore out of PySpark's jars, for tests and the quickstart."""
