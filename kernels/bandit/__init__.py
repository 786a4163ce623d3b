"""One file per environment."""
