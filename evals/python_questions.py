"""Questions about Python source, found by `ast` alone: nothing of a repository is ever imported or run."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

Kind = Literal["default_value", "constant_value", "base_class"]

MAX_CODE_CHARS: Final = 420  # about 130 tokens: small, so that a slow number format can be asked too
MAX_CODE_LINES: Final = 14
MAX_ANSWER_CHARS: Final = 32
_CONSTANT: Final = re.compile(r"_?[A-Z][A-Z0-9_]{2,}")


@dataclass(frozen=True)
class Question:
    """What is asked about one place of a file. `name` is unique in the file; lines count from 1, both ends included."""

    kind: Kind
    name: str
    subject: str  # the parameter, field, constant or class that is asked about
    owner: str  # the function or class that it belongs to; "" at module level
    owner_kind: Literal["function", "class", ""]
    answer: str
    line: int
    end_line: int
    code: str
    code_start: int
    code_end: int


def questions(source: str) -> list[Question]:
    """All questions that a file gives, in its order. A file that is no Python gives none."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return []
    lines = source.splitlines()
    found: list[Question] = []
    for node, owners in _walk(tree, ()):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found += _defaults(node, owners, source, lines)
        elif isinstance(node, ast.ClassDef):
            found += _base(node, owners, source, lines)
            found += _fields(node, owners, source, lines)
        if isinstance(node, ast.Module | ast.ClassDef):
            found += _constants(node, owners, source, lines)
    unique = {question.name: question for question in reversed(found)}  # the first of a name that comes twice
    return sorted(unique.values(), key=lambda question: (question.line, question.name))


def _walk(node: ast.AST, owners: tuple[str, ...]) -> Iterator[tuple[ast.AST, tuple[str, ...]]]:
    """Modules, classes and functions with the names around them."""
    yield node, owners
    inside = owners
    if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        inside = (*owners, node.name)
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _walk(child, inside)


def _answer(node: ast.expr, source: str) -> str | None:
    """The source of a literal that can be asked for; None for what is no literal, is long, or says nothing."""
    text = ast.get_source_segment(source, node)
    if text is None or "\n" in text or not 0 < len(text) <= MAX_ANSWER_CHARS:
        return None
    try:
        found = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError):
        return None
    if isinstance(found, str | bytes):
        return text if found.strip() and "`" not in text else None  # a backtick ends an answer
    if isinstance(found, tuple | list | set | dict):
        return text if found and "`" not in text else None
    return None if found is Ellipsis else text


def _defaults(
    node: ast.FunctionDef | ast.AsyncFunctionDef, owners: tuple[str, ...], source: str, lines: list[str]
) -> Iterator[Question]:
    positional = [*node.args.posonlyargs, *node.args.args]
    pairs = list(zip(positional[len(positional) - len(node.args.defaults) :], node.args.defaults, strict=True))
    pairs += [(arg, value) for arg, value in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True) if value]
    qualified = ".".join((*owners, node.name))
    for arg, value in pairs:
        answer = _answer(value, source)
        window = _window(lines, (node.lineno, min(node.lineno + 3, _end(node))), (node.lineno, _end(value)))
        if answer is not None and window is not None:
            yield Question(
                "default_value", f"{qualified}({arg.arg})", arg.arg, node.name, "function", answer,
                value.lineno, _end(value), *window,
            )  # fmt: skip


def _fields(node: ast.ClassDef, owners: tuple[str, ...], source: str, lines: list[str]) -> Iterator[Question]:
    """Annotated class attributes with a value: parameters of the constructor of a dataclass or a pydantic model."""
    qualified = ".".join((*owners, node.name))
    for statement in node.body:
        if not isinstance(statement, ast.AnnAssign) or not isinstance(statement.target, ast.Name):
            continue
        subject = statement.target.id
        if statement.value is None or _CONSTANT.fullmatch(subject) or subject.startswith("__"):
            continue
        answer = _answer(statement.value, source)
        first = max(node.lineno, statement.lineno - 5)
        window = _window(lines, (first, statement.lineno + 2), (statement.lineno, _end(statement)))
        if answer is not None and window is not None:
            yield Question(
                "default_value", f"{qualified}.{subject}", subject, node.name, "class", answer,
                statement.lineno, _end(statement), *window,
            )  # fmt: skip


def _constants(
    node: ast.Module | ast.ClassDef, owners: tuple[str, ...], source: str, lines: list[str]
) -> Iterator[Question]:
    inside = (*owners, node.name) if isinstance(node, ast.ClassDef) else ()
    for statement in node.body:
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            target: ast.expr = statement.targets[0]
        elif isinstance(statement, ast.AnnAssign):
            target = statement.target
        else:
            continue
        if not isinstance(target, ast.Name) or not _CONSTANT.fullmatch(target.id) or statement.value is None:
            continue
        answer = _answer(statement.value, source)
        window = _window(lines, (statement.lineno - 4, statement.lineno + 4), (statement.lineno, _end(statement)))
        if answer is not None and window is not None:
            yield Question(
                "constant_value", ".".join((*inside, target.id)), target.id, inside[-1] if inside else "",
                "class" if inside else "", answer, statement.lineno, _end(statement), *window,
            )  # fmt: skip


def _base(node: ast.ClassDef, owners: tuple[str, ...], source: str, lines: list[str]) -> Iterator[Question]:
    if len(node.bases) != 1 or not isinstance(node.bases[0], ast.Name | ast.Attribute):
        return
    last = _end(node.bases[0])
    answer = ast.get_source_segment(source, node.bases[0])
    window = _window(lines, (node.lineno - 3, node.lineno + 5), (node.lineno, last))
    if answer and len(answer) <= MAX_ANSWER_CHARS and answer != "object" and window is not None:
        name, owner = ".".join((*owners, node.name)), owners[-1] if owners else ""
        yield Question(
            "base_class", name, node.name, owner, "class" if owner else "", answer, node.lineno, last, *window
        )


def _window(lines: list[str], wanted: tuple[int, int], kept: tuple[int, int]) -> tuple[str, int, int] | None:
    """Code, first and last line of what is shown: the lines `wanted`, shortened line by line, first from the end, until
    it is small enough. The lines `kept` stay; None if even they are too many."""
    start, end = max(1, min(wanted[0], kept[0])), min(len(lines), max(wanted[1], kept[1]))
    while end - start + 1 > MAX_CODE_LINES or sum(len(line) + 1 for line in lines[start - 1 : end]) > MAX_CODE_CHARS:
        if end > kept[1]:
            end -= 1
        elif start < kept[0]:
            start += 1
        else:
            return None
    while not lines[start - 1].strip():
        start += 1
    while not lines[end - 1].strip():
        end -= 1
    shown = lines[start - 1 : end]
    indent = min(len(line) - len(line.lstrip()) for line in shown if line.strip())
    return "\n".join(line[indent:].rstrip() for line in shown), start, end


def _end(node: ast.expr | ast.stmt) -> int:
    return node.end_lineno or node.lineno
