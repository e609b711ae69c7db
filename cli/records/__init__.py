"""Rows and lines about what daemons answered, the same for commands and pages."""
