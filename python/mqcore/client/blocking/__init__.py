"""The synchronous face: the asyncio core on one loop in a thread, under the same names.

Users import from `mqcore`. Safe from any number of threads; plain sends go by sockets of their own
and never wait for that thread.
"""
