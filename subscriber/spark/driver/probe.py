"""Probe: starts a session with an application's settings, attaches it, and returns its status.

``topicast doctor`` runs it by the application's command, instead of the application.
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

ATTACHED_S_MAX: Final = 15.0  # until the driver is live, and catalogd has answered a report
LOOK_S: Final = 0.1  # between two looks at the status
CACHE: Final = "spark.sql.filesourceTableRelationCacheSize"
LOOKED_AT: Final = (IMPLEMENTATION, CATALOGS + CATALOG, CACHE)


def look() -> dict[str, Any]:
    """Return ``status`` (an AttachStatus), ``conf`` (settings by key), ``jar`` (is it there)."""
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
    """Return whether ``status`` is final: the driver is plain Spark, or catalogd has answered."""
    if status.state == LIVE:
        return status.writes != NO_CONTACT
    return status.state != CONNECTING
