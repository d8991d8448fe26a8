"""The error of a configuration that the server cannot start with."""


class AuthenticationError(ValueError):
    """The configuration of authentication is invalid. `str()` is the problem, as upstream words it."""
