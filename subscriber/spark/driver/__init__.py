"""The parts of an attached driver in its own Python: the handle, and the process hook."""
