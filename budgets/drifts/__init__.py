"""Has what a plan was learned from changed, since when, and in which cause?"""
