"""What an operator may set: `Options`, frozen, parsed and checked once at start and then passed down.

Here belongs every setting of the server with its default, its help, its limits and its spelling as a flag, in the environment and in the
configuration file; and nothing that acts on a setting. Nothing here does I/O except `load_options`, which reads the one configuration file.

The fields of `Options` are the only table: flags, environment variables, the file's schema and `docs/configuration.md` are derived from
them.
"""

from kcp_py.options.errors import OptionsError
from kcp_py.options.loading import CONFIGURATION_API_VERSION, CONFIGURATION_KIND, load_options, unknown_environment_variables
from kcp_py.options.options import Options
from kcp_py.options.settings import SETTINGS, Setting

__all__ = [
    "CONFIGURATION_API_VERSION",
    "CONFIGURATION_KIND",
    "SETTINGS",
    "Options",
    "OptionsError",
    "Setting",
    "load_options",
    "unknown_environment_variables",
]
