"""Attaches a driver: sessions, Spark Connect, the start-up hook."""
