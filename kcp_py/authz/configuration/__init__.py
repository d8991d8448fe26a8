"""The authorizers that the operator has configured, by options or by an AuthorizationConfiguration.

Belongs here: reading and checking the configuration, making authorizers from it, and replacing them when the file changes. Does not belong
here: the decisions of the authorizers.
"""
