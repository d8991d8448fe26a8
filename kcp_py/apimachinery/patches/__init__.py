"""Patch formats as functions over decoded values: JSON patch, JSON merge patch, strategic merge patch.

Belongs here: applying a decoded patch to a decoded object. Does not belong here: reading bodies, choosing by Content-Type, what happens to
the result. Inputs are never changed; results share with them what the patch does not touch.
"""
