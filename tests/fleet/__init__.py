"""`make fleet`: one server with very many logical clusters, seeded past the API and measured through it.

Creating a million clusters by requests would take hours. So one cluster is created by requests, and its keys are copied for the others
through the contract of the storage. A copy has the keys and bytes that requests would have written, with uids and times of its own
(`test_template.py`). All figures are for reading: nothing here asserts a time.
"""
