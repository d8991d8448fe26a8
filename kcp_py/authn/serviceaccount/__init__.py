"""Tokens of service accounts: the keys that sign them, how they are issued, and how they are verified.

Belongs here: claims, keys, the subresource `serviceaccounts/token`, the authenticator of its tokens, and the documents with which other
systems verify them. Does not belong here: the service accounts themselves (apis.core), and tokens of other issuers.
"""
