"""The content of a hub: the entries that catalogd sends, checked, and those that a policy shows."""
