"""Python classes from definitions: CustomResourceDefinitions and the OpenAPI documents of servers as Pydantic models or dataclasses.

Belongs here: names, types and the text of modules. Does not belong here: reading files and servers, which the command does.
"""
