"""Shared by all processes: names, entries, topics, the wire, the rules of following.

Pure, apart from ``link/``. Nothing here may import a sibling folder, and
importing this package loads no zmq.
"""
