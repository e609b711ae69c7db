"""The contents of entries as bytes: Thrift structs, their common parts, blocks of partitions."""
