"""Filters: which partitions a condition on their values selects.

    text of Hive ──hive.py──▶ ┐
                              ├─▶ Term ──matching.py, with a table's columns──▶ Predicate
    text of SQL  ──sql.py───▶ ┘

Both languages are read into the same terms. ``matching.py`` and ``operands.py`` alone decide what a
term means for a column of a type.
"""
