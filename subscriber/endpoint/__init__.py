"""The endpoint: a driver's subscriber as a metastore to read from, on loopback."""
