"""The jar that attaches drivers of the JVM, and the agent that it starts."""
