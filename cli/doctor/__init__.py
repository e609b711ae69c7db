"""Checks for the usual causes of problems, in order; each check says what to do next."""
