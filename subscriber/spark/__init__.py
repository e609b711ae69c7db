"""Spark drivers that are simply fresh: attach, and what others change is refreshed by push.

Spark is imported only once a session exists, and reached only through `catalyst`.
"""

from .driver.handle import Handle, attach
from .status import Status

__all__ = ["Handle", "Status", "attach"]
