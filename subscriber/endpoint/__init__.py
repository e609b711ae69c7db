"""The endpoint: answers reads of Hive's client from a driver's subscriber, on loopback."""
