"""Seconds of one deadline by place: the methods, the choice among them, the slots, how they were spent."""
