"""The metastore behind an interface; only here are hmsclient and Thrift's library used."""
