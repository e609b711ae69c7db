"""What keeps a daemon below its limit of memory: what it takes, which content leaves first."""
