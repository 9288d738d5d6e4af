"""Would it have held? What plans say, scored on runs that they were not learned from."""
