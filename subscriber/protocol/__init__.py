"""What the rooms of a subscriber say to each other: facts, effects, commands."""
