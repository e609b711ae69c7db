"""Exit codes of commands. This file loads on Python 3.6, as ``start`` does."""

DONE = 0
FAILED = 1
WRONG_USE = 2
NOT_REACHABLE = 3
TIMED_OUT = 4
DEGRADED = 5
NOT_FOUND = 127  # as a shell has it for a command that does not exist
INTERRUPTED = 130  # as a shell has it for a command that SIGINT ended
TERMINATED = 143  # and for a process that SIGTERM ended
