// The simulator over sockets follows.
