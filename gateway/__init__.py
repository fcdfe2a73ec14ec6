"""The only room with an event loop: sockets, threads, signals, the command line."""
