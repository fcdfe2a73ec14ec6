"""One read of a store: which rows it has, in which partitions, and what each partition reads."""
