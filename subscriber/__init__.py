"""The library in a Spark driver: follows topics within a budget, answers from memory.

Imports `topics` only; a driver loads nothing else of ours.
"""
