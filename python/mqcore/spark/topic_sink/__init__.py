"""Writes rows to topics: `df.write.format("mqcore")` and `df.writeStream.format("mqcore")`.

At least once: a task that is tried again sends its rows again, with the same marks, and
`mqcore.spark.drop_repeats` leaves one of each. Knows nothing of reading.
"""
