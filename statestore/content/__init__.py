"""What a hub holds: what catalogd sends, once it is checked, and what a policy lets through."""
