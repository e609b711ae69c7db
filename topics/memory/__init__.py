"""Keeps a daemon below its limit of memory: measures what it takes, and has cold content leave."""
