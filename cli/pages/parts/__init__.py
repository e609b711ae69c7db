"""What a page is made of: grids and figures under titles, and the HTML around them."""
