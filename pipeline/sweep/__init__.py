"""Sweeps of the files of tables: how they are listed, compared and reported."""
