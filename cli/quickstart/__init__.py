"""The stack and the story that `topicast quickstart` shows."""
