"""The connection itself: its terms and settings, its login, its peers, its time limits, and the responses it owes."""
