"""The transport: the only place that uses ZeroMQ. It carries frames without decoding them."""

from .curve import new_pair
from .link import Handshake, Inbox, Link, LinkCounts, ReceivedFrame

__all__ = ["Handshake", "Inbox", "Link", "LinkCounts", "ReceivedFrame", "new_pair"]
