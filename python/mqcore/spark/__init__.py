"""Topics and whole stores as Spark DataFrames. Imports pyspark and pyarrow only when used."""
