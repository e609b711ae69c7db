"""What the rooms of a subscriber say to each other: facts, effects, versions, pending calls."""
