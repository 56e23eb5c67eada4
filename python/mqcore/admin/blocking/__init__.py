"""The synchronous administrator: the asyncio methods on one loop in a thread, under the same names.

Users import `mqcore.Admin`. A class per family; signatures and docstrings are those of the asyncio
methods, which a test compares.
"""
