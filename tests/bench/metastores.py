"""Metastores: a real one with many tables or partitions, made in seconds by SQL in its database.

Through Thrift, Derby takes 4 ms for a partition. Here a partition is made through Thrift, and the
others by INSERT from SELECT, twice as many with each round; the metastore reads them as its own.
"""

from typing import Final

from hmsclient import HMSClient

from topicast.cli.quickstart.metastore.server import EmbeddedMetastore
from topicast.tests.cluster.fake_metastore import make_partition, make_table

KEY: Final = "ds"
FIRST_ID: Final = 100_000_000  # far above what the metastore gives by itself

# t the table, o the one partition with its parts d (storage) and r (serde), p all that there are.
_FROM: Final = """FROM APP.TBLS t
    JOIN APP.PARTITIONS o ON o.TBL_ID = t.TBL_ID AND o.PART_NAME = 'ds=00000000'
    JOIN APP.SDS d ON d.SD_ID = o.SD_ID JOIN APP.SERDES r ON r.SERDE_ID = d.SERDE_ID
    JOIN APP.PARTITIONS p ON p.TBL_ID = t.TBL_ID
    {more} WHERE t.TBL_NAME = '{table}' AND {number} BETWEEN {first} AND {last}"""
_NUMBER: Final = "CAST(SUBSTR(p.PART_NAME, 4) AS INTEGER)"
_NAME: Final = f"'ds=' || SUBSTR(CHAR(100000000 + {{held}} + {_NUMBER}), 2, 8)"

# First the parts of the copies of all that there are, then the copies, then what hangs on them.
_COPIES: Final = (
    "INSERT INTO APP.SERDES (SERDE_ID, NAME, SLIB) SELECT {id}, r.NAME, r.SLIB {from_}",
    """INSERT INTO APP.SDS (SD_ID, CD_ID, INPUT_FORMAT, IS_COMPRESSED, IS_STOREDASSUBDIRECTORIES,
                            LOCATION, NUM_BUCKETS, OUTPUT_FORMAT, SERDE_ID)
       SELECT {id}, d.CD_ID, d.INPUT_FORMAT, d.IS_COMPRESSED, d.IS_STOREDASSUBDIRECTORIES,
              d.LOCATION || '/' || {name}, d.NUM_BUCKETS, d.OUTPUT_FORMAT, {id} {from_}""",
    """INSERT INTO APP.PARTITIONS
              (PART_ID, CREATE_TIME, LAST_ACCESS_TIME, PART_NAME, SD_ID, TBL_ID)
       SELECT {id}, o.CREATE_TIME, o.LAST_ACCESS_TIME, {name}, {id}, o.TBL_ID {from_}""",
)
_HANGING: Final = (
    """INSERT INTO APP.PARTITION_KEY_VALS (PART_ID, PART_KEY_VAL, INTEGER_IDX)
       SELECT p.PART_ID, SUBSTR(p.PART_NAME, 4), 0 {from_}""",
    """INSERT INTO APP.PARTITION_PARAMS (PART_ID, PARAM_KEY, PARAM_VALUE)
       SELECT p.PART_ID, v.PARAM_KEY, v.PARAM_VALUE {from_}""",
)
_PARAMETERS: Final = "JOIN APP.PARTITION_PARAMS v ON v.PART_ID = o.PART_ID"


# t the tables that there are, whose numbers are in their names, with their parts d and r.
_TABLES_FROM: Final = """FROM APP.TBLS t
    JOIN APP.SDS d ON d.SD_ID = t.SD_ID JOIN APP.SERDES r ON r.SERDE_ID = d.SERDE_ID
    WHERE t.TBL_NAME LIKE 't0%' AND {number} < {copied}"""
_TABLE_NUMBER: Final = "CAST(SUBSTR(t.TBL_NAME, 2) AS INTEGER)"
_TABLE_NAME: Final = f"'t0' || SUBSTR(CHAR(10000000 + {{held}} + {_TABLE_NUMBER}), 2, 7)"
_TABLE_COPIES: Final = (
    "INSERT INTO APP.SERDES (SERDE_ID, NAME, SLIB) SELECT {id}, r.NAME, r.SLIB {from_}",
    """INSERT INTO APP.SDS (SD_ID, CD_ID, INPUT_FORMAT, IS_COMPRESSED, IS_STOREDASSUBDIRECTORIES,
                            LOCATION, NUM_BUCKETS, OUTPUT_FORMAT, SERDE_ID)
       SELECT {id}, d.CD_ID, d.INPUT_FORMAT, d.IS_COMPRESSED, d.IS_STOREDASSUBDIRECTORIES,
              d.LOCATION || '/' || {name}, d.NUM_BUCKETS, d.OUTPUT_FORMAT, {id} {from_}""",
    """INSERT INTO APP.TBLS
              (TBL_ID, CREATE_TIME, DB_ID, LAST_ACCESS_TIME, OWNER, RETENTION, SD_ID, TBL_NAME,
               TBL_TYPE, IS_REWRITE_ENABLED)
       SELECT {id}, t.CREATE_TIME, t.DB_ID, t.LAST_ACCESS_TIME, t.OWNER, t.RETENTION, {id},
              {name}, t.TBL_TYPE, t.IS_REWRITE_ENABLED {from_}""",
    """INSERT INTO APP.TABLE_PARAMS (TBL_ID, PARAM_KEY, PARAM_VALUE)
       SELECT {id}, v.PARAM_KEY, v.PARAM_VALUE FROM APP.TABLE_PARAMS v
       JOIN APP.TBLS t ON v.TBL_ID = t.TBL_ID
       WHERE t.TBL_NAME LIKE 't0%' AND {number} < {copied}""",
)


def create_many(hive: EmbeddedMetastore, client: HMSClient, db: str, *, tables: int) -> None:
    """Create tables from ``t00000000`` to ``t0NNNNNNN``, without partition columns."""
    client.create_table(make_table(db, "t00000000", location=f"{hive.warehouse}/{db}"))
    held = 1
    while held < tables:
        copied = min(held, tables - held)
        given = {
            "id": f"{FIRST_ID + held} + {_TABLE_NUMBER}",
            "name": _TABLE_NAME.format(held=held),
            "from_": _TABLES_FROM.format(number=_TABLE_NUMBER, copied=copied),
            "number": _TABLE_NUMBER,
            "copied": copied,
        }
        for statement in _TABLE_COPIES:
            hive.sql(statement.format(**given))
        held += copied


def create_large(
    hive: EmbeddedMetastore,
    client: HMSClient,
    name: tuple[str, str],
    *,
    partitions: int,
    first_id: int = FIRST_ID,
) -> None:
    """Create the table ``name`` with partitions from ``ds=00000000`` to ``ds=NNNNNNNN``.

    ``first_id``: of what is made for it; a second table of a metastore needs other ids.
    """
    table = make_table(*name, location=f"{hive.warehouse}/{name[1]}", keys=[KEY])
    client.create_table(table)
    client.add_partitions([make_partition(table, ["00000000"])])
    add_partitions(hive, name[1], held=1, partitions=partitions, first_id=first_id)


def add_partitions(
    hive: EmbeddedMetastore, table: str, *, held: int, partitions: int, first_id: int = FIRST_ID
) -> None:
    """Add partitions to a ``table`` of ``create_large``, which has ``held``, without an event."""
    while held < partitions:
        for statement in _round(table, held, end=min(2 * held, partitions), first_id=first_id):
            hive.sql(statement)
        held = min(2 * held, partitions)


def _round(table: str, held: int, *, end: int, first_id: int) -> list[str]:
    """Return what makes the partitions from number ``held`` up to ``end``."""

    def source(first: int, last: int, more: str = "") -> str:
        return _FROM.format(table=table, number=_NUMBER, first=first, last=last, more=more)

    given = {
        "id": f"{first_id + held} + {_NUMBER}",
        "name": _NAME.format(held=held),
        "from_": source(0, end - held - 1),
    }
    values, parameters = _HANGING
    return [
        *(statement.format(**given) for statement in _COPIES),
        values.format(from_=source(held, end - 1)),
        parameters.format(from_=source(held, end - 1, _PARAMETERS)),
    ]
