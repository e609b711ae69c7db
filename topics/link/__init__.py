"""The transport: the only place that knows ZeroMQ. Carries frames, understands none of them."""
