"""What a command prints, how it is interrupted, and the code with which it ends."""
