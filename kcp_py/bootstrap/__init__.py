"""Data that the server needs at its first start, as package data with a loader.

Belongs here: built-in kinds and their schemas, and whatever else every server ships; JSON files and the few lines that read them.
Does not belong here: rules (strategies), anything that depends on options, clusters or storage. Nothing of the project is imported.
"""
