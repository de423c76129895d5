"""A run's raw data as files: what was stored comes back from Parquet and from CSV, and no cell is a formula."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session, sessionmaker
from typer.testing import CliRunner

from db import results
from kitedash.cli import app
from kitedash.domain.errors import NotFound
from kitedash.domain.results import Answer, LevelStatus
from kitedash.measuring.levels import summarize_level
from kitedash.measuring.request_table import NAMES, decode
from kitedash.services import block_samples, raw_data
from kitedash.services.distributions import distributions
from kitedash.services.raw_data import FORMATS, WHATS, Format, raw_file
from kitedash.settings import settings
from tests.db.rows import stored_runs
from tests.db.test_results import a_suite, an_answer
from tests.ui import request_blobs

pytestmark = pytest.mark.database
Store = sessionmaker[Session]
FORMULA = '=HYPERLINK("http://x";"y")\nand more, with "quotes"'
RATES = (1.0, 2.0)


@pytest.fixture
def run(url: str, store: Store, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("KITEDASH_DATABASE_URL", url)
    settings.cache_clear()
    stored_runs(store, "run-with-data", "empty")
    with store.begin() as session:
        for rate in RATES:
            blocks = request_blobs.blocks(rate, 500 * rate, LevelStatus.OK, failed=1 if rate == 2 else 0)
            for block in blocks:
                results.store_block(session, "run-with-data", block)
            results.store_level(session, "run-with-data", summarize_level(blocks, 0))
        results.store_block(session, "run-with-data", request_blobs.invalid_block(1.0))
        answers = (an_answer("a", text=FORMULA), an_answer("b", text="-1", score=0.5, tokens_out=None, passed=False))
        results.store_suite(session, "run-with-data", a_suite(*answers))
    yield "run-with-data"
    settings.cache_clear()


def read(run_id: str, what: raw_data.What, file_format: Format) -> pd.DataFrame:
    data = io.BytesIO(raw_file(run_id, what, file_format).data)
    return pd.read_parquet(data) if file_format == "parquet" else pd.read_csv(data, keep_default_na=False)


@pytest.mark.parametrize("file_format", FORMATS)
def test_every_request_of_every_block_is_there(run: str, file_format: Format, store: Store) -> None:
    frame = read(run, "requests", file_format)
    assert list(frame.columns) == ["rate_per_s", "block", "block_status", *NAMES]
    assert len(frame) == 13 * 40
    assert dict(frame.groupby("block_status").size()) == {"invalid": 40, "ok": 480}
    with store() as session:
        stored = [decode(block.requests_blob) for block in results.blocks(session, run)]
    for name in ("due_s", "first_token_s", "queue_time_ms"):
        assert list(frame[name]) == [value for table in stored for value in table[name]], name
    assert (frame["error"] == "timed out").sum() == 6


def test_parquet_carries_what_each_column_means(run: str) -> None:
    for what in WHATS:
        schema = pq.read_schema(io.BytesIO(raw_file(run, what, "parquet").data))
        meanings = {field.name: field.metadata[b"meaning"].decode() for field in schema}
        assert meanings == {column.name: column.meaning for column in raw_data.columns(what)}
        assert all(meanings.values())


@pytest.mark.parametrize("file_format", FORMATS)
def test_the_levels_are_those_that_are_stored(run: str, file_format: Format, store: Store) -> None:
    frame = read(run, "levels", file_format)
    with store() as session:
        stored = results.levels(session, run)
    assert list(frame["rate_per_s"]) == list(RATES)
    for row, level in zip(frame.to_dict("records"), stored, strict=True):
        assert row["ttft_p90_ms"] == level.ttft_p90_ms.value
        assert row["ttft_p90_n"] == level.ttft_p90_ms.n == 240
        assert row["part_queue_ms"] == level.parts_ms["queue"]
        assert row["error_rate"] == level.error_rate


def test_csv_text_that_would_be_a_formula_is_escaped_and_the_rest_is_as_it_was(run: str) -> None:
    frame = read(run, "answers", "csv")
    assert list(frame["text"]) == ["'" + FORMULA, "'-1"]
    assert list(frame["score"].astype(float)) == [1.0, 0.5]
    assert list(frame["passed"]) == [True, False]
    assert frame["tokens_out"].iloc[1] == ""
    assert list(read(run, "answers", "parquet")["text"]) == [FORMULA, "-1"]


def test_a_run_without_data_has_a_file_without_rows(run: str) -> None:
    for what in WHATS:
        for file_format in FORMATS:
            assert len(read("empty", what, file_format)) == 0


def test_the_name_says_what_is_inside(run: str) -> None:
    assert raw_data.file_name(run, "levels", "csv") == "speeds_run-with-data_run-with_levels.csv"


def test_an_unknown_run_writes_nothing(run: str) -> None:
    target = io.BytesIO()
    with pytest.raises(NotFound):
        raw_data.write("gone", "requests", "csv", target)
    assert target.getvalue() == b""


def test_the_distributions_are_of_the_requests_that_the_levels_count(run: str, store: Store) -> None:
    with store() as session:
        stored = results.levels(session, run)
    found = distributions(run)
    assert [curves.rate_per_s for curves in found] == list(RATES)
    for curves, level in zip(found, stored, strict=True):
        assert curves.status is LevelStatus.OK
        assert curves.blocks == 6  # the invalid seventh, whose requests took 100 s, is left out
        assert curves.ttft.at(0.5) == level.ttft_p50_ms.value
        assert curves.ttft.at(0.9) == level.ttft_p90_ms.value
        assert curves.tpot.at(0.9) == level.tpot_p90_ms.value
        assert curves.e2e.at(0.9) == level.e2e_p90_ms.value
        assert curves.ttft.n_failed == level.n_failed
    assert found[0].ttft.at(0.9) == pytest.approx(500)  # as request_blobs promises
    assert found[1].ttft.shares[-1] == pytest.approx(234 / 240)  # the slowest of each block failed
    assert found[1].tpot.n == 234


def test_heads_open_no_blob(run: str, store: Store) -> None:
    statements: list[str] = []
    with store() as session:
        engine = session.get_bind()
        assert isinstance(engine, sa.Engine)

        def seen(_c: object, _u: object, statement: str, *_: object) -> None:
            statements.append(statement)

        sa.event.listen(engine, "before_cursor_execute", seen)
        heads = results.block_heads(session, run)
        version = results.blocks_version(session, run)
        sa.event.remove(engine, "before_cursor_execute", seen)
    assert not any("requests_blob" in statement for statement in statements)
    assert [(head.rate_per_s, head.block) for head in heads] == [
        *((1.0, block) for block in range(7)),
        *((2.0, block) for block in range(6)),
    ]
    assert heads[6].checks[-1] == request_blobs.LATE
    with store.begin() as session:
        results.store_block(session, run, request_blobs.invalid_block(2.0))
        assert results.blocks_version(session, run) != version


def test_blocks_come_one_by_one_as_they_come_together(run: str, store: Store) -> None:
    with store() as session:
        assert list(results.each_block(session, run)) == results.blocks(session, run)


def test_one_answer(run: str, store: Store) -> None:
    with store() as session:
        found = results.answer(session, run, "repository", "a")
        assert isinstance(found, Answer)
        assert found.text == FORMULA
        assert results.answer(session, run, "repository", "gone") is None


def export(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["export", *map(str, arguments)])
    return result.exit_code, result.output


def test_the_command_writes_the_file_that_its_name_asks_for(run: str, tmp_path: Path) -> None:
    out = tmp_path / "answers.csv"
    code, said = export("run-with", "--what", "answers", "--out", out)
    assert (code, said) == (0, f"{out}: 2 rows of answers\n")
    assert out.read_bytes() == raw_file(run, "answers", "csv").data
    assert export(run, "--out", tmp_path / "r", "--format", "parquet")[0] == 0
    assert len(pd.read_parquet(tmp_path / "r")) == 13 * 40
    assert not list(tmp_path.glob(".*"))  # nothing unfinished is left behind


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("run-with", "--what", "all", "--out", "x.csv"), "--what: 'all' is not allowed"),
        (("run-with", "--out", "x.xlsx"), "--format: 'xlsx' is not allowed"),
        (("gone", "--out", "x.csv"), "No run has the id 'gone'"),
        (("run-with", "--out", "no-such-folder/x.csv"), "--out: no-such-folder/x.csv can't be written"),
    ],
)
def test_what_the_command_refuses(
    run: str, arguments: tuple[str, ...], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, said = export(*arguments)
    assert code == 2
    assert sentence in said
    assert not list(tmp_path.glob("*.csv"))
    assert not list(tmp_path.glob(".*.part"))


def test_a_block_is_decoded_once_for_the_distributions(run: str, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[bytes] = []
    monkeypatch.setattr(block_samples, "decode", lambda blob: decoded.append(blob) or decode(blob))
    first = distributions(run)
    assert len(decoded) == 12  # 2 rates x 6 blocks; the invalid one is not opened
    assert distributions(run) == first
    assert len(decoded) == 12
    (block,) = request_blobs.blocks(1.0, 900, LevelStatus.OK)[:1]
    with store.begin() as session:
        results.store_block(session, run, block)  # in place of the first one, which was measured again
    found = distributions(run)
    assert len(decoded) == 13
    assert found[0].ttft != first[0].ttft
    assert found[1] == first[1]


def test_parquet_has_a_row_group_a_block(run: str) -> None:
    data = raw_file(run, "requests", "parquet").data
    assert pq.ParquetFile(io.BytesIO(data)).num_row_groups == 13
