"""What a request asks for: its route, its fields and its credentials; and what it may be answered with."""
