"""The agent: the process beside a driver that attaches it, Spark Connect sessions among them."""
