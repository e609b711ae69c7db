"""The store on disk: one SQLite file in a locked folder."""
