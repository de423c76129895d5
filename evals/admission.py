"""Which items may enter a suite. An item that a wrong or an empty answer passes measures nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from evals.format import Item
from evals.scorers import score

MAX_PROMPT_TOKENS = 350  # with the chat template
TEMPLATE_TOKENS = 60  # room for the template's own marks and its default system message
MIN_CHARS_PER_TOKEN = 2.0  # code has 2.6 to 4 in the vocabularies we tried; fewer here is on the safe side
MAX_PROMPT_CHARS = int((MAX_PROMPT_TOKENS - TEMPLATE_TOKENS) * MIN_CHARS_PER_TOKEN * 1.25)


def item_score(item: Item, answer: str) -> float:
    return score(item.scorer.type, item.scorer.args, item.reference, answer)


def context_tokens(items: Sequence[Item]) -> int:
    """A safe upper bound of the context that a suite needs, answer included, whatever the tokenizer."""
    return max((int(i.prompt_chars / MIN_CHARS_PER_TOKEN) + TEMPLATE_TOKENS + i.max_tokens for i in items), default=0)


def refusal(item: Item, others: Sequence[Item]) -> str | None:
    """Why the item may not enter a suite beside `others` (the suite; the item itself is skipped), or None.

    Its references must score 1 and an empty answer 0, it must be small enough, and the answer of the next item of its
    kind that has another one must score 0.
    """
    if any(item_score(item, reference) != 1.0 for reference in item.reference):
        return "its own reference does not score 1"
    if item_score(item, "") or item_score(item, " \n"):
        return "an empty answer scores above 0"
    if item.prompt_chars > MAX_PROMPT_CHARS:
        return f"its prompt has {item.prompt_chars} characters; at most {MAX_PROMPT_CHARS} are allowed"
    if any(stop in reference for stop in item.stop for reference in item.reference):
        return "its reference holds a stop string, so that no answer could be complete"
    foreign = [other for other in others if other.kind == item.kind and other.reference != item.reference]
    if not foreign:
        return "no other item of its kind has another answer"
    position = next((index for index, other in enumerate(others) if other.id == item.id), 0)
    rotated = [other for other in (*others[position:], *others[:position]) if other in foreign]
    if item_score(item, rotated[0].reference[0]):
        return f"the answer of {rotated[0].id} passes as well"
    return None


def chance(items: Sequence[Item]) -> float:
    """Share of passes of the best blind guesser: one answer for each kind of question, the most frequent one."""
    passed = 0
    for kind in sorted({item.kind for item in items}):
        same_kind = [item for item in items if item.kind == kind]
        guesses = {item.reference[0] for item in same_kind}
        passed += max(sum(item_score(item, guess) > 0 for item in same_kind) for guess in guesses)
    return passed / len(items) if items else 0.0


def counts(items: Sequence[Item]) -> dict[str, int]:
    return dict(sorted(Counter(item.kind for item in items).items()))
