"""What a daemon shows over HTTP: whether it serves, its numbers, one page. Changes no state."""
