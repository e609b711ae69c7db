"""The members of a hub: when each was seen, the drivers among them, and what all have applied."""
