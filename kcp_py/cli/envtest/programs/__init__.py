"""The programs that `kcp-py envtest-assets` copies: their text, with a first line that names the interpreter.

They are started for every test environment, so they import nothing that they do not need.
"""
