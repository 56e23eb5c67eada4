"""Publishes what a program logs: python examples/log_records.py [name server]."""

import logging
import sys

from mqcore.client.log_handler import LogHandler

namesrv = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"

logging.basicConfig(level=logging.INFO, handlers=[LogHandler(namesrv, topic="logs")])
logging.info("the program begins")
try:
    1 / 0  # noqa: B018
except ZeroDivisionError:
    logging.exception("and fails")
