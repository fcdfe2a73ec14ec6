"""The command ``penstock``: one file per sub-command."""
