"""The twin of a table: the same partitions in another format, converted when their files change."""
