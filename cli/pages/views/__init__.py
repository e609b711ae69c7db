"""The pages of each daemon: the facts that each shows, as grids and figures."""
