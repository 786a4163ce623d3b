"""Pictures of environments: the canvas they draw on, frames of a batch, tiles and files."""
