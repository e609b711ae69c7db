"""Probe: starts a session with an application's settings, attaches it, and returns its status.

``topicast doctor`` has the application's command run this in the application's place.
"""

import time
from dataclasses import asdict
from typing import Any, Final

from ....topics.objects.drivers import CONNECTING, LIVE
from ..jar.bootstrap import has_jar
from ..status import AttachStatus
from ..writes.metastores import CATALOG, CATALOGS, IMPLEMENTATION
from ..writes.reporter import NO_CONTACT
from .handle import attach

ATTACHED_S_MAX: Final = 15.0  # for the first contact, and for catalogd to take reports
LOOK_S: Final = 0.1
CACHE: Final = "spark.sql.filesourceTableRelationCacheSize"
LOOKED_AT: Final = (IMPLEMENTATION, CATALOGS + CATALOG, CACHE)


def look() -> dict[str, Any]:
    """Return the status of an attached driver, the settings that matter to it, and whether it
    has the jar.
    """
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    if not SparkConf().contains(IMPLEMENTATION):  # the application may do so in its code
        builder = builder.enableHiveSupport()
    session = builder.getOrCreate()
    try:
        handle = attach(session)
        until = time.monotonic() + ATTACHED_S_MAX
        while time.monotonic() < until and not _is_answered(handle.status()):
            time.sleep(LOOK_S)
        conf = session.sparkContext.getConf()
        return {
            "status": asdict(handle.status()),
            "jar": has_jar(session._jvm),
            "conf": {name: conf.get(name) for name in LOOKED_AT if conf.contains(name)},
        }
    finally:
        session.stop()


def _is_answered(status: AttachStatus) -> bool:
    """Whether more waiting changes nothing: plain Spark, or catalogd has answered."""
    if status.state == LIVE:
        return status.writes != NO_CONTACT
    return status.state != CONNECTING
