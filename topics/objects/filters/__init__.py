"""Filters: which partitions a condition on their values selects.

    text of Hive ──hive.py──▶ ┐
                              ├─▶ Term ──matching.py, with a table's columns──▶ Predicate
    text of SQL  ──sql.py───▶ ┘    ▲
                                   └──form_of──▶ in messages

Both languages are read once, where they come in, into the same terms; a term is what is kept, sent
and compared. ``matching.py``, ``functions.py`` and ``operands.py`` alone decide what it means for a
column of a type.
"""
