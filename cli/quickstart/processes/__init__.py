"""The processes of the quickstart: how each is started, watched, counted and ended."""
