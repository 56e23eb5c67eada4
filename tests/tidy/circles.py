"""Files that use one another in a circle. Knows no language: paths and who uses whom."""

# The file of a folder that is one module with the files below it.
_HEADS = frozenset({"mod.rs", "lib.rs", "__init__.py"})


def is_one_module(one: str, other: str) -> bool:
    """Returns whether one is the head of the folder that the other is in."""
    for head, below in ((one, other), (other, one)):
        folder, _, name = head.rpartition("/")
        if name in _HEADS and below.startswith(folder + "/"):
            return True
    return False


def circles(edges: dict[str, set[str]]) -> list[list[str]]:
    """Returns the groups of files that use one another in a circle, largest first (Tarjan)."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    groups: list[list[str]] = []

    def visit(start: str) -> None:
        work = [(start, iter(sorted(edges.get(start, ()))))]
        order[start] = low[start] = len(order)
        stack.append(start)
        while work:
            node, targets = work[-1]
            for target in targets:
                if target not in order:
                    order[target] = low[target] = len(order)
                    stack.append(target)
                    work.append((target, iter(sorted(edges.get(target, ())))))
                    break
                if target in stack:
                    low[node] = min(low[node], order[target])
            else:
                work.pop()
                if work:
                    above = work[-1][0]
                    low[above] = min(low[above], low[node])
                if low[node] == order[node]:
                    at = stack.index(node)
                    groups.append(sorted(stack[at:]))
                    del stack[at:]

    for node in sorted(edges):
        if node not in order:
            visit(node)
    return sorted((group for group in groups if len(group) > 1), key=lambda g: (-len(g), g))
