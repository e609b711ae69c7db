"""Convert: each partition of a table appears in its Parquet or ORC copy, once and whole."""

import os
import socket
from contextlib import nullcontext
from typing import TYPE_CHECKING

from ..topics.errors import UsageError
from ..topics.keys.folder import DRIVER, find_credential
from ..topics.objects.names import table_name
from ..topics.settings import parse_addresses
from .catalog import catalog_at
from .conversion.converter import Conversion, ConvertOptions
from .conversion.lease import TableLease, held
from .conversion.report import ConvertReport
from .options import called_with

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@called_with(ConvertOptions)
def convert(spark: "SparkSession", options: ConvertOptions) -> ConvertReport:
    """Convert the partitions of ``source`` into its copy ``target``; return what was done.

    The metastore of ``spark`` must be that of catalogd.

    Raises:
        LeaseHeld: another convert into ``target`` runs, or took over while this run was paused.
        NoSuchObject: there is no such source.
        UsageError: a table cannot be converted, or cannot be a copy; says why.
        TopicastError: a hub, catalogd or the metastore does not answer.
    """
    from .conversion.warehouse import Warehouse  # loads PySpark, which other commands do not need

    if not hasattr(spark, "_jsparkSession"):
        raise UsageError("convert needs a session with a JVM, not one of Spark Connect")
    source, target = options.tables
    host, pid = socket.gethostname(), os.getpid()
    lease = TableLease(
        target,
        owner=f"convert from {table_name(*source)} on {host}, process {pid}",
        hubs=parse_addresses(options.hubs, setting="statestores"),
        credential=find_credential(DRIVER, key_file=options.key_file, environ=os.environ),
    )
    with nullcontext() if options.dry_run else held(lease), catalog_at(options) as catalog:
        warehouse = Warehouse(spark, file_bytes=options.target_file_mb << 20)
        conversion = Conversion(warehouse, catalog, lease, options=options)
        return conversion.run_once() if options.once or options.dry_run else conversion.run()
