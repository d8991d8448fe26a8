"""JWT authenticators as configuration files and objects of clusters describe them (k8s.io/apiserver `pkg/apis/apiserver`).

Belongs here: the form of an `AuthenticationConfiguration` and of its parts, their validation, and the compilation of their expressions.
Does not belong here: tokens, keys and how users are made of claims (`kcp_py.authn.oidc`).
"""
