"""The content of a subscriber's memory, accounted in bytes, and its view for readers."""
