"""What catalogd answers on its own port: pulls, and who waits for what."""
