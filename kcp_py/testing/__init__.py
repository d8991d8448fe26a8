"""Support for tests of users.

Belongs here: code for tests against this program or of its extensions, such as storage drivers. Does not belong here: the tests of the
program itself. No other package imports this one, and only the modules that need them import pytest and hypothesis.
"""
