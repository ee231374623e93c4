"""The repository as text and as syntax trees."""

import ast
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from console.environ import ROOT

NOT_OURS = {".git", ".venv", "var", "staticfiles", "node_modules", "__pycache__", "test-results"}


def files(*folders: str, suffix: str = "") -> list[Path]:
    """Every file of ours under these folders, or in the whole repository, as paths from its root."""
    found = []
    for folder in folders or (".",):
        for here, below, names in os.walk(ROOT / folder):
            below[:] = [name for name in below if name not in NOT_OURS and not name.endswith("_cache")]
            below[:] = [name for name in below if name != ".hypothesis"]
            names = [name for name in names if name.endswith(suffix) and name not in NOT_OURS]  # a worktree's .git
            found += [(Path(here) / name).relative_to(ROOT) for name in names]
    return sorted(found)


def python(*folders: str) -> list[Path]:
    """Modules written by hand: no migrations."""
    return [path for path in files(*folders, suffix=".py") if "migrations" not in path.parts]


def text(path: Path) -> str:
    return (ROOT / path).read_text()


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(text(path))


def imports(path: Path) -> Iterator[str]:
    """Dotted names of all that a module imports, wherever in it; relative ones made whole."""
    package = path.with_suffix("").parts[:-1]
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            whole = ".".join((*above, *filter(None, [node.module])))
            yield from (f"{whole}.{alias.name}" for alias in node.names)


def calls(path: Path) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree(path)) if isinstance(node, ast.Call))


def names(node: ast.AST) -> list[str]:
    """The parts of `a.b(…).c`, outermost last: a, b, c."""
    if isinstance(node, ast.Attribute):
        return [*names(node.value), node.attr]
    if isinstance(node, ast.Call):
        return names(node.func)
    if isinstance(node, ast.Subscript):
        return names(node.value)
    return [node.id] if isinstance(node, ast.Name) else []


def at(path: Path, node: ast.AST) -> str:
    return f"{path}:{node.lineno}"
