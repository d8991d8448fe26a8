"""What users' tests need.

Belongs here: things shipped for testing against this program or for testing extensions of it (storage drivers first). Does not belong here:
the program's own tests. Nothing in the program imports this package, and pytest and hypothesis are imported only by the modules that need
them.
"""
