"""Violation: what every checker raises."""


class Violation(AssertionError):
    """What a checker found; says how to see it again."""
