"""The commands of `topicast pipeline`."""
