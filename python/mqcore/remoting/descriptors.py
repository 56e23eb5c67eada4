"""How many descriptors the process may have, and how many of them connections may take.

A connection takes one. What the others are for comes first: a broker that cannot open a queue file
neither stores nor reads.
"""

import resource

__all__ = ["RESERVED", "connections_within", "descriptors_within", "raised_descriptors"]

# Kept for everything but connections and queue files: files of the log and the index as they are
# made and read, small files as they are replaced, listeners, name servers, the loop itself.
RESERVED = 64
# Of them so many stay free whatever the others are used for.
_SPARE = 16
# However small the limit is, somebody may come.
_CONNECTIONS_MIN = 8
_UNLIMITED = 1 << 30


def raised_descriptors() -> int:
    """Raises the soft limit to the hard one; returns how many the process may have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError):
            # More than the system as a whole allows: it stays as it was.
            return _known(soft)
    return _known(hard)


def connections_within(wanted: int, *, queue_files: int = 0) -> int:
    """Returns how many connections there may be.

    Args:
        wanted: At the most.
        queue_files: Files that the store may keep open at once, of which it takes no more than half
            of all descriptors.
    """
    limit = _known(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    left = limit - min(queue_files, limit // 2) - RESERVED
    return max(min(wanted, left), _CONNECTIONS_MIN)


def descriptors_within() -> int:
    """Returns the number of a descriptor from which on none is left for a connection."""
    return _known(resource.getrlimit(resource.RLIMIT_NOFILE)[0]) - _SPARE


def _known(limit: int) -> int:
    return _UNLIMITED if limit == resource.RLIM_INFINITY else min(limit, _UNLIMITED)
