"""The parts of a page: grids and figures under titles, and the HTML around them."""
