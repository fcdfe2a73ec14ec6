"""What sessions of STOMP and OpenWire share: one connection is one session, and its frames are taken in order."""
