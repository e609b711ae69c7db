"""How Spark drivers are started, attached: by which commands, and in what environment."""
