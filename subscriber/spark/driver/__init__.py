"""What a driver's Python has of it: its handle, and the process hook."""
