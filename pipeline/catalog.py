"""Catalog: the subscriber that a run of a pipeline reads tables from."""

import os
from typing import Any

from ..subscriber.client.subscriber import Subscriber
from .datasource.options import hubs_of


def catalog_at(statestores: str | None, **settings: Any) -> Subscriber:
    """Return a subscriber for one run; it is not open yet.

    It pins and bans nothing, whatever the environment says: that is meant for applications.

    Args:
        statestores: Addresses of hubs; None: TOPICAST_STATESTORES, else this machine's.
        settings: Other arguments of ``Subscriber``.
    """
    hubs = hubs_of(statestores, os.environ)
    return Subscriber(hubs, always="", never="", command=True, **settings)
