"""One module for each family of `topicast` commands."""
