"""Catalog: the subscriber that a run of a pipeline reads tables from."""

from typing import Any

from ..subscriber.client.subscriber import Subscriber
from .options import RunOptions


def catalog_at(options: RunOptions, **settings: Any) -> Subscriber:
    """Return a subscriber for one run; it is not open yet.

    It pins and bans nothing, because the pins and bans of the environment are for applications.
    ``settings``: other arguments of ``Subscriber``.
    """
    return Subscriber(
        options.hubs, key_file=options.key_file, always="", never="", command=True, **settings
    )
