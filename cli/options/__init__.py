"""The options of commands and daemons: on the command line, in the environment, in a file."""
