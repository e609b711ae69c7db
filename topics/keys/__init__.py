"""Keys: who may connect and as what: key files, the list of clients, and the folder of both."""
