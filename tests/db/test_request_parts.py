"""A run's requests one by one, and the server's seconds: what is stored comes back, and no list opens a timeline."""

from __future__ import annotations

import io
from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session, sessionmaker

from db import results
from kitedash.domain.errors import NotFound
from kitedash.domain.results import LevelStatus
from kitedash.measuring import timeline
from kitedash.services.raw_data import FORMATS, Format, raw_file
from kitedash.services.request_parts import level_parts, request_detail, slow_requests
from kitedash.settings import settings
from tests.db.rows import stored_runs
from tests.ui import request_blobs

pytestmark = pytest.mark.database
Store = sessionmaker[Session]


@pytest.fixture
def run(url: str, store: Store, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("KITEDASH_DATABASE_URL", url)
    settings.cache_clear()
    stored_runs(store, "with-requests", "empty")
    with store.begin() as session:
        for block in request_blobs.blocks(2.0, 1_000, LevelStatus.OK, failed=1):
            results.store_block(session, "with-requests", block)
        results.store_block(session, "with-requests", request_blobs.invalid_block(2.0))
    yield "with-requests"
    settings.cache_clear()


def test_a_timeline_comes_back_and_lists_do_not_read_it(run: str, store: Store) -> None:
    said: list[str] = []
    with store() as session:
        sa.event.listen(session.get_bind(), "before_cursor_execute", lambda *given: said.append(given[2]), named=False)
        assert [block.timeline_blob for block in results.block_heads(session, run)] == [b""] * 7
        results.blocks(session, run)
        assert results.timelines(session, run) == 7
        assert not any("load_blocks.timeline_blob" in sql and "IS NOT NULL" not in sql for sql in said)
        frame = timeline.decode(results.timeline(session, run, 2.0, 3))
        assert results.timeline(session, run, 9.0, 3) == b""
    assert list(frame["t_s"]) == [float(t) for t in range(-1, 22)]  # 40 requests at 2/s are 20 s
    assert frame["preemptions"].max() == 2.0


@pytest.mark.parametrize("file_format", FORMATS)
def test_the_seconds_of_every_block_are_exported(run: str, file_format: Format) -> None:
    data = io.BytesIO(raw_file(run, "timeline", file_format).data)
    frame = pd.read_parquet(data) if file_format == "parquet" else pd.read_csv(data)
    assert list(frame.columns) == ["rate_per_s", "block", "block_status", *timeline.NAMES]
    assert len(frame) == 7 * 23
    assert dict(frame.groupby("block_status").size()) == {"invalid": 23, "ok": 6 * 23}
    assert frame["prompt_tokens"].max() == 40 * 306


def test_moments_of_chunks_are_one_cell_of_a_csv(run: str) -> None:
    frame = pd.read_csv(io.BytesIO(raw_file(run, "requests", "csv").data), keep_default_na=False)
    (chunks,) = frame[(frame["block"] == 0) & (frame["index"] == 0)]["chunk_ms"]
    assert len(chunks.split(" ")) == request_blobs.TOKENS_OUT - 1


def test_the_requests_around_the_p90_are_explained_over_the_valid_blocks(run: str) -> None:
    (level,) = level_parts(run)
    assert (level.rate_per_s, level.n) == (2.0, 24), "ranks 205 to 228 of 240"
    assert "(30.0 %) waiting in the engine's queue" in level.said
    assert "max-num-seqs" in level.advice
    assert sum(one.n_failed for one in level.over_time) == 6
    assert sum(one.n for one in level.over_time) == 234
    assert level_parts("empty") == ()


def test_failed_requests_are_the_slowest_and_invalid_blocks_are_only_on_demand(run: str) -> None:
    found = slow_requests(run, 2.0, None, "first token")
    assert found.n == 240
    assert [row.cause for row in found.rows[:7]] == ["failed"] * 6 + ["queue"]
    assert np.isinf(found.rows[0].ttft_ms)
    assert slow_requests(run, 2.0, 6, "last token").rows[0].ttft_ms == 100_000
    with pytest.raises(NotFound):
        slow_requests(run, 3.0, None, "first token")
    with pytest.raises(NotFound):
        slow_requests(run, 2.0, 7, "first token")


def test_one_request_in_full(run: str) -> None:
    detail = request_detail(run, 2.0, 0, 3, "last token")
    assert detail.row.tokens_cached == 288
    assert sum(detail.parts_ms[part] for part in ("client", "front_end", "queue", "prefill")) == pytest.approx(
        detail.row.ttft_ms
    )
    (stall,) = detail.stalls
    assert stall.ms == pytest.approx(6 * detail.parts_ms["decode"] / 19, rel=1e-6)
    assert detail.server is not None
    assert detail.row.cause == "stalls"
    failed = request_detail(run, 2.0, 0, 39, "last token")
    assert failed.said.startswith("It failed: timed out.")
    with pytest.raises(NotFound, match="no request 40"):
        request_detail(run, 2.0, 0, 40, "first token")


def test_a_block_that_is_measured_again_is_read_again(run: str, store: Store) -> None:
    before = slow_requests(run, 2.0, 6, "first token").rows[0].ttft_ms
    with store.begin() as session:
        (again,) = request_blobs.blocks(2.0, 500, LevelStatus.OK)[:1]
        results.store_block(session, run, again)
    assert before == 100_000
    assert slow_requests(run, 2.0, 0, "first token").rows[0].ttft_ms < 850
