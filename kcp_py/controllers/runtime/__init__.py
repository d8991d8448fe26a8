"""What every controller runs on: queues of keys, loops, sources of changes, and the election of a leader.

Belongs here: code that knows no kind of object. Does not belong here: what a controller does.
"""
