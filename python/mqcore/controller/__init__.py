"""The controller: brokers get their ids, report that they live, and learn who is their master.

Pure parts (`liveness`, `peers`, `bodies`) below the decisions (`elections`) below the handlers
(`requests`) below the running server (`server`). What was decided is kept by
`mqcore.native.ControllerNode`. Knows no broker's code: it hears of them by requests alone.
"""

from mqcore.controller.server import Controller

__all__ = ["Controller"]
