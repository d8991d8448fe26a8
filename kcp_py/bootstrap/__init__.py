"""Data that the server needs at its first start, as package data with a loader.

Belongs here: built-in kinds and their schemas, and other data of every server; JSON files and the code that reads them.
Does not belong here: rules (strategies), anything that depends on options, clusters or storage. It imports no other package of the project.
"""
