"""How Spark drivers are started: by commands, or attached by a hook in their Python."""
