"""The processes that `topicast quickstart` starts, and the demonstration that it prints."""
