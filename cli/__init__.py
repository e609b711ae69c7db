"""The edge: parses, builds objects, serves pages, prints, sets the exit code. Decides nothing."""
