"""Violation: what every checker raises."""


class Violation(AssertionError):
    """A broken promise that a checker found, with how to repeat the run."""
