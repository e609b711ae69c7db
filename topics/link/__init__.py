"""The transport: the only place that knows ZeroMQ. Carries frames, understands none of them."""

from .link import Inbox, Link, LinkCounts, Received

__all__ = ["Inbox", "Link", "LinkCounts", "Received"]
