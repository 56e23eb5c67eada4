"""Name server and broker in one process: the embedded default.

The only module that knows both; they still talk to each other through remoting alone.
"""

from mqcore.standalone.both import DEFAULTS, Standalone, namesrv_settings_of

__all__ = ["DEFAULTS", "Standalone", "namesrv_settings_of"]
