"""Reaches the daemons for commands, requests facts of them, and says why none answers."""
