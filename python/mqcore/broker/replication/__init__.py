"""Replication as the broker sees it: who connects to whom and when, tables of the master, reports.

Bytes of the stream are the extension's; here nobody reads or writes one.
"""

from mqcore.broker.replication.role import Replication

__all__ = ["Replication"]
