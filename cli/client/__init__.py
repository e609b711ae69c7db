"""How commands reach the daemons, request facts of them, and what it means when none answers."""
