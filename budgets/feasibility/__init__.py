"""Can a deadline be met, by how many, in a run nobody has seen, and if one thing were different?"""
