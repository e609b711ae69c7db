"""One subscriber as a state machine, and the thread that runs it."""
