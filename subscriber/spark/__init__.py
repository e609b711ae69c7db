"""Attached Spark drivers: changes of others are pushed and refresh Spark's caches.

Spark is imported only once a session exists, and reached only through `catalyst`.
"""

from .driver.handle import Handle, attach
from .status import AttachStatus

__all__ = ["AttachStatus", "Handle", "attach"]
