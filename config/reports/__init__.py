"""What can be said of a configuration without a gateway: origins, traps, a schema, a translation."""
