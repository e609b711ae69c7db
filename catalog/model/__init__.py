"""The catalog in memory: databases, tables, versions, transactions."""
