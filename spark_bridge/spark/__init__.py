"""Spark itself: its session, its Java, and the modules for its workers."""
