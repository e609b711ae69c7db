"""The HTTP pages of a daemon: health, metrics, pages for people. They change no state."""
