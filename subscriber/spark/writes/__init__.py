"""Reports the writes of this driver."""
