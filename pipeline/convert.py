"""Convert: each partition of a table appears in its Parquet or ORC copy, once and whole."""

import os
import socket
import threading
from contextlib import nullcontext
from typing import TYPE_CHECKING

from ..subscriber import arguments
from ..topics.errors import UsageError
from ..topics.keys.folder import DRIVER, find_credential
from ..topics.objects.names import table_name
from ..topics.settings import parse_addresses
from .catalog import catalog_at
from .conversion.converter import Conversion, ConvertOptions
from .conversion.lease import TableLease, held
from .conversion.plan import BATCH, FORMATS, KEEP_S, TARGET_FILE_MB
from .conversion.report import ConvertReport
from .datasource.options import hubs_of
from .progress import OnProgress, ignore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def convert(
    spark: "SparkSession",
    source: str,
    target: str,
    *,
    once: bool = True,
    where: str | None = None,
    location: str | None = None,
    file_format: str = FORMATS[0],
    target_file_mb: int = TARGET_FILE_MB,
    batch: int = BATCH,
    keep_s: float = KEEP_S,
    dry_run: bool = False,
    statestores: str | None = None,
    key_file: str | None = None,
    on_progress: OnProgress = ignore,
    stop: threading.Event | None = None,
) -> ConvertReport:
    """Convert the partitions of ``source`` into its copy ``target``; return what was done.

    Args:
        spark: Its metastore is that of catalogd.
        source: A table with partitions, of any format that Spark reads.
        target: Its converted copy; created if it does not exist.
        once: Convert what differs and return; else go on with what changes, until ``stop``.
        where: Only partitions for which this condition of SQL holds.
        location: Where a new copy is created; else where its database says.
        file_format: The format of a new copy: parquet or orc.
        target_file_mb: About the size of the copy's files.
        batch: How many partitions one Spark job writes at most.
        keep_s: How long files that were replaced stay, for queries that were planned before.
        dry_run: Change nothing, and return what would be converted.
        statestores: Addresses of hubs; else TOPICAST_STATESTORES, else this machine's.
        key_file: A driver's key file; found as every driver finds it.
        on_progress: Is called after each step; what it raises ends the run.
        stop: Ends a run between two batches.

    Raises:
        LeaseHeld: another convert into ``target`` runs, or took over while this run was paused.
        NoSuchObject: there is no such source.
        UsageError: a table is not fit for it; says why.
        TopicastError: a hub, catalogd or the metastore does not answer.
    """
    from .conversion.warehouse import Warehouse  # it loads PySpark, which other commands do without

    pair = arguments.table(source), arguments.table(target)
    if pair[0] == pair[1]:
        raise UsageError(f"{table_name(*pair[0])} cannot be its own copy")
    if file_format not in FORMATS:
        raise UsageError(f"format {file_format!r}: {' or '.join(FORMATS)}")
    if target_file_mb < 1 or batch < 1:
        raise UsageError("target_file_mb and batch are at least 1")
    if not hasattr(spark, "_jsparkSession"):
        raise UsageError("convert needs a session with a JVM, not one of Spark Connect")
    hubs = hubs_of(statestores, os.environ)
    options = ConvertOptions(
        source=pair[0],
        target=pair[1],
        where=where,
        location=location,
        file_format=file_format,
        batch=batch,
        keep_s=keep_s,
        dry_run=dry_run,
    )
    owner = f"convert from {table_name(*pair[0])} on {socket.gethostname()}, process {os.getpid()}"
    lease = TableLease(
        pair[1],
        owner=owner,
        hubs=parse_addresses(hubs, setting="statestores"),
        credential=find_credential(DRIVER, key_file=key_file, environ=os.environ),
    )
    with (
        nullcontext() if dry_run else held(lease),
        catalog_at(hubs, key_file=key_file) as catalog,
    ):
        conversion = Conversion(
            Warehouse(spark, file_bytes=target_file_mb << 20),
            catalog,
            lease,
            options=options,
            on_progress=on_progress,
            stop=stop or threading.Event(),
        )
        return conversion.run_once() if once or dry_run else conversion.run()
