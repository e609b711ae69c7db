"""What a driver's Python has of it: its handle, the process hook, the launcher."""
