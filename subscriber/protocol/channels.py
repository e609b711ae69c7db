"""Channels: the connections of a subscriber, each with a socket of its own."""

from enum import StrEnum


class Channel(StrEnum):
    """The name of a connection, which is the name of its socket."""

    DATA = "data"  # SUB to the hub: deltas, heartbeats, barriers
    CONTROL = "control"  # to the hub: joins, status
    BULK = "bulk"  # to the hub: catch-ups
    SERVICE = "service"  # to catalogd: sync, compare, validate, reports
    PULLS = "pulls"  # to catalogd: pulls
