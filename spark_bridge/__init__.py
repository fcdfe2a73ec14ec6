"""Reads the commit log with Spark and exports destinations to Parquet; never talks to a live gateway."""
