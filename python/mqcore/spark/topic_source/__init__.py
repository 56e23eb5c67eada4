"""Reading topics as rows, in batches and as streams."""
