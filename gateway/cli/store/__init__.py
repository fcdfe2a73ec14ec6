"""``penstock store``: one file per sub-command."""
