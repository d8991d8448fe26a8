"""Tokens of OpenID Connect providers: signatures, key sets, and users made of claims.

Belongs here: everything between a JWT and its user, for issuers that a configuration file or an object of a cluster names. Does not belong
here: the form of that configuration (`kcp_py.apis.jwt`), service account tokens, HTTP (`kcp_py.egress`).
"""
