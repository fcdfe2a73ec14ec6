"""The figures of the gateway, about once a second: the last ones, and those of the last hour."""
