"""Ready-made candidates for published implementations, one file each, imported lazily."""
