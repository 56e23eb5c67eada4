"""The broker: names, groups, members, timetables and the answers to what is not hot.

Bytes are the store's and the fast path's. Talks to name servers through `mqcore.remoting` only.
"""
