"""What a subscriber holds in memory, to the byte, and how readers see it."""
