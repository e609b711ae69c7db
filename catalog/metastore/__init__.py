"""The metastore behind a port; only here are hmsclient, Thrift's library and Java used."""
