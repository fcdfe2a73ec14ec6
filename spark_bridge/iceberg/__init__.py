"""The tables of an export as tables of Iceberg, in a catalogue of the user's."""
