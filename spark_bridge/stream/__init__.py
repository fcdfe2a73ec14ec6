"""A table as a stream of Spark, in micro-batches."""
