"""The twin of a table: the same partitions in another format, made anew when their files change."""
