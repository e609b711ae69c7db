"""Keys: key files, the list of the clients that are admitted, and the folder of both."""
