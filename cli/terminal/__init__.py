"""The output of commands, their interruption, and the codes with which they end."""
