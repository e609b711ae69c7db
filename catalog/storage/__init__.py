"""The store on disk: one SQLite file under a locked folder."""
