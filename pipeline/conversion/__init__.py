"""The converted copy of a table: its partitions in another format, kept as new as their files."""
