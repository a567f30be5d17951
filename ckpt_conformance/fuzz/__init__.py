"""Generated programs, compared with the plain run; shrinking to a script."""
