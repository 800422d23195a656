"""The Python face, joining the rooms: nothing is decided here that a room could decide."""
