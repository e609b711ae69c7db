"""The transport: the only place that knows ZeroMQ. Carries frames, understands none of them."""

from .inbox import Inbox
from .link import Link, LinkCounts, Received

__all__ = ["Inbox", "Link", "LinkCounts", "Received"]
