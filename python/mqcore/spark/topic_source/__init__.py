"""Reading topics as rows, in batches and as streams. Imported by the format when it is asked for."""
