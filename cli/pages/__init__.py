"""The HTTP pages of a daemon: health, metrics, one page for people. They change no state."""
