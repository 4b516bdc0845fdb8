"""Rooms of a hub, seen from outside: reached by their address, joined over WebSocket, given servers of this machine."""
