"""Publishes what a program logs: python examples/log_records.py [name server]."""

import logging
import sys

from mqcore import LogHandler

namesrv = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"

root = logging.getLogger()
root.setLevel(logging.INFO)
root.addHandler(LogHandler(namesrv, topic="logs"))

root.info("the program begins")
try:
    int("no number")
except ValueError:
    root.exception("and fails")
