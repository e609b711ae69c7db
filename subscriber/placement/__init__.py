"""Chooses the level of each topic and what is held beyond it: planner, pins, prefetch."""
