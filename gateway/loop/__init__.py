"""The thread of the engine: its turns and its alarms."""
