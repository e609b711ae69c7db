"""The messages between the rooms of a subscriber: facts, effects, commands."""
