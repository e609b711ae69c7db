"""ChangeKind: the kind of a change, in one word for watches, histories, logs and views."""

from ..backports import StrEnum


class ChangeKind(StrEnum):
    """The kind of a change of a database, a table or a partition.

    SCHEMA is what Spark caches of a table: its columns, location and storage, the text of a view,
    and the schema in its parameters; of a database it is anything. DATA is all else: files that
    were written, partitions, other parameters.
    """

    CREATED = "created"
    SCHEMA = "schema"
    DATA = "data"
    DROPPED = "dropped"
    LOADED = "loaded"  # catalogd has read it, for the first time or again; no watch has this
    UNLOADED = "unloaded"  # catalogd holds it no longer: its entries became stubs; no watch has it
