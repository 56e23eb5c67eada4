"""Replication as the broker sees it: who connects to whom and when, tables of the master, reports.

Bytes of the stream are the extension's; here nobody reads or writes one.
"""

from mqcore.broker.replication.following import MasterFollower
from mqcore.broker.replication.listener import SlaveListener
from mqcore.broker.replication.metadata import MetadataSync

__all__ = ["MasterFollower", "MetadataSync", "SlaveListener"]
