"""The metastore behind a port: the only place that knows hmsclient, Thrift's library and Java."""
