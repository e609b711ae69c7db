"""Answers from the store's file: histories, the log, scans, the files of tables."""
