"""The pages of rooms: a list, one room with its log, and the events that keep the page current."""
