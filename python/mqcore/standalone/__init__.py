"""Several programs in one process: name server and broker, or name server and controller.

The only module that knows more than one; they still talk to each other through remoting alone.
"""

from mqcore.standalone.both import DEFAULTS, Standalone, namesrv_settings_of
from mqcore.standalone.namesrv_controller import NameServerWithController

__all__ = ["DEFAULTS", "NameServerWithController", "Standalone", "namesrv_settings_of"]
