"""Reports about a configuration without a gateway: origins, traps, a schema, a translation."""
