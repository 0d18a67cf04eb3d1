"""Long-term entries: the model of one, its file, and the folders of a group.

Reading order: `marks`, `entry`, `store`.
"""
