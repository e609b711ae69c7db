"""The attached driver: its handle, Spark Connect sessions, the process hook, the launcher."""
