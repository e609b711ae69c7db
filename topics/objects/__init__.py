"""What an entry's value encodes: names, tables, blocks of partitions. Plain functions on bytes."""
