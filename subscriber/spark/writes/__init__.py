"""Reports what this driver writes."""
