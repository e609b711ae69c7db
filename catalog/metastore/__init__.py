"""The metastore behind one port: the only place that knows hmsclient, Thrift and its exceptions."""
