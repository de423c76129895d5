"""`python -m evals.generate REPO OUT`: makes a repository suite from the Python files of a folder.

Deterministic: the same files give the same items. Nothing of the folder is run. With `--tokenizer DIR` the size of
every prompt is counted exactly by that model's own template instead of by the safe bound alone.
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from evals.admission import MAX_PROMPT_CHARS, MAX_PROMPT_TOKENS, chance, counts, refusal
from evals.format import KINDS, SCHEMA, Context, Item, Message, Scorer, write_items
from evals.python_questions import Question, questions

SKIPPED_FOLDERS: Final = frozenset(
    {"tests", "test", "data", "build", "dist", "site-packages", "node_modules", "__pycache__", "versions"}
)
MAX_TOKENS: Final = 24
STOP: Final = ("`", "\n")


def generate(
    root: Path, *, repo: str, per_kind: int, per_file: int, per_answer: int, folders: Sequence[str] = ()
) -> tuple[Item, ...]:
    """At most `per_kind` items of each kind, `per_file` of each kind from one file and `per_answer` of each kind with
    one answer (so that no single guess goes far), in the order of kind, file and line."""
    commit = _commit(root)
    candidates: dict[str, list[Item]] = {kind: [] for kind in KINDS}
    for path in _python_files(root, folders):
        source = path.read_text(encoding="utf-8", errors="replace")
        for question in questions(source):
            candidates[question.kind].append(_item(question, path.relative_to(root).as_posix(), source, repo, commit))
    chosen: list[Item] = []
    for kind in KINDS:
        files: Counter[str] = Counter()
        answers: Counter[str] = Counter()
        kept: list[Item] = []
        # By hash, not by file name: a cap must not favour the folders that come first in the alphabet.
        for item in sorted(candidates[kind], key=lambda item: hashlib.sha256(item.id.encode()).hexdigest()):
            room = len(kept) < per_kind and files[item.path] < per_file and answers[item.reference[0]] < per_answer
            if room and item.prompt_chars <= MAX_PROMPT_CHARS:
                kept.append(item)
                files[item.path] += 1
                answers[item.reference[0]] += 1
        chosen += sorted(kept, key=lambda item: (item.path, item.span, item.id))
    return tuple(item for item in chosen if refusal(item, chosen) is None)


def _python_files(root: Path, folders: Sequence[str]) -> Iterator[Path]:
    for top in [root / folder for folder in folders] or [root]:
        for path in sorted(top.rglob("*.py")):
            parts = path.relative_to(root).parts[:-1]
            if not any(part in SKIPPED_FOLDERS or part.startswith(".") for part in parts):
                yield path


def _item(question: Question, path: str, source: str, repo: str, commit: str) -> Item:
    shown = "\n".join(source.splitlines()[question.code_start - 1 : question.code_end])
    asked, begun = _wording(question)
    return Item(
        id=f"{question.kind}/{path}/{question.name}"[-200:],
        schema_version=SCHEMA,
        kind=question.kind,
        repo=repo,
        commit=commit,
        path=path,
        span=(question.line, question.end_line),
        lang="python",
        messages=(
            Message(role="user", content=f"```python\n{question.code}\n```\n{asked}"),
            Message(role="assistant", content=begun),
        ),
        context=(
            Context(
                path=path,
                start=question.code_start,
                end=question.code_end,
                sha=hashlib.sha256(shown.encode()).hexdigest(),
            ),
        ),
        reference=(question.answer,),
        scorer=Scorer(type="name" if question.kind == "base_class" else "value"),
        max_tokens=MAX_TOKENS,
        stop=STOP,
        cluster=path,
        tags=(question.owner_kind or "module",),
        source="generated",
    )


def _wording(question: Question) -> tuple[str, str]:
    """The question and the beginning of its answer. Begun this way, the answer is the bare code up to a backtick: no
    rambling to see through, and a model too small to keep to a form is judged on what it found."""
    subject = question.subject
    if question.kind == "base_class":
        return f"Which class does `{subject}` inherit from?", f"`{subject}` inherits from `"
    if question.kind == "constant_value":
        return f"What is the value of `{subject}`?", f"The value of `{subject}` is `"
    what = "parameter" if question.owner_kind == "function" else "field"
    return (
        f"What is the default value of the {what} `{subject}` of `{question.owner}`?",
        f"The default value of `{subject}` is `",
    )


def _commit(root: Path) -> str:
    command = ["git", "-C", str(root), "rev-parse", "--verify", "--quiet", "HEAD"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return found.stdout.strip() if found.returncode == 0 else ""


def _fits(items: Sequence[Item], tokenizer_dir: Path) -> tuple[Item, ...]:
    from transformers import AutoTokenizer  # loaded only for the exact count

    tokenizer = AutoTokenizer.from_pretrained(str(tokenizer_dir), local_files_only=True)

    def tokens(item: Item) -> int:
        messages = [message.model_dump() for message in item.messages]
        text = tokenizer.apply_chat_template(messages, tokenize=False, continue_final_message=True)
        return len(tokenizer(text, add_special_tokens=False).input_ids)

    sizes = {item.id: tokens(item) for item in items}
    print(f"Prompt tokens: {sum(sizes.values())} in all, {max(sizes.values(), default=0)} at most.")
    return tuple(item for item in items if sizes[item.id] <= MAX_PROMPT_TOKENS)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m evals.generate", description=__doc__)
    parser.add_argument("repo", type=Path, help="folder of the repository or installed package")
    parser.add_argument("out", type=Path, help="JSONL file to write")
    parser.add_argument("--name", default="kitedash", help="name of the repository in the items")
    parser.add_argument("--folders", nargs="*", default=["kitedash", "db", "evals"], help="only these folders of it")
    parser.add_argument("--all-folders", action="store_true", help="every folder of it")
    parser.add_argument("--per-kind", type=int, default=32)
    parser.add_argument("--per-file", type=int, default=4, help="of each kind")
    parser.add_argument("--per-answer", type=int, default=4, help="of each kind")
    parser.add_argument("--tokenizer", type=Path, help="folder of a model, to count tokens exactly")
    args = parser.parse_args(argv)
    folders = [] if args.all_folders else [folder for folder in args.folders if (args.repo / folder).is_dir()]
    items = generate(
        args.repo.resolve(),
        repo=args.name,
        per_kind=args.per_kind,
        per_file=args.per_file,
        per_answer=args.per_answer,
        folders=folders,
    )
    if args.tokenizer:
        items = _fits(items, args.tokenizer)
    if not items:
        print(f"No question was found in the Python files of {args.repo}.", file=sys.stderr)
        return 1
    write_items(args.out, items)
    print(f"{len(items)} items in {args.out}: {counts(items)}; a blind guess passes {chance(items):.0%}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
