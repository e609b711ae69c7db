"""The Spark applications that the quickstart starts, each in a process of its own."""
