"""The experiments and prices that come with KiteDash."""

from __future__ import annotations

from pathlib import Path

import pytest

from kitedash.domain.errors import NotFound
from kitedash.domain.expand import expand
from kitedash.domain.experiment_file import parse_experiment, to_yaml
from kitedash.domain.prices import parse_price_book

FOLDER = Path(__file__).resolve().parents[3] / "experiments"
EXPERIMENTS = sorted(path.name for path in FOLDER.glob("*.yaml") if path.name != "prices.yaml")


def read(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_is_valid(name: str) -> None:
    spec = parse_experiment(read(name), source=name)
    assert spec.baseline in [candidate.name for candidate in expand(spec)]
    assert parse_experiment(to_yaml(spec)) == spec


def test_quickstart_varies_what_the_product_is_about() -> None:
    spec = parse_experiment(read("quickstart.yaml"))
    found = expand(spec)
    assert len(found) >= 6
    formats = {one.engine_args["dtype"] if one.quantization == "none" else one.quantization for one in found}
    assert formats >= {"bfloat16", "float32", "fp8", "int8"}
    assert {one.engine_args.get("enable-prefix-caching", True) for one in found} == {True, False}
    assert len({one.engine_args["max-num-seqs"] for one in found}) == 2
    workload = spec.workload
    assert workload.shared_prefix_tokens / workload.input_tokens == pytest.approx(0.95, abs=0.005)
    block = next(iter({one.engine_args["block-size"] for one in found}))
    cached = workload.shared_prefix_tokens // block * block
    assert cached / workload.input_tokens > 0.93
    assert workload.requests_per_day == 200_000
    assert workload.peak_rate_per_s == pytest.approx(200_000 / 86_400 * 5)


def test_the_price_book_knows_the_usual_devices() -> None:
    book = parse_price_book(read("prices.yaml"))
    for name in ("NVIDIA H200", "NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB", "NVIDIA L4", "NVIDIA L40S"):
        assert book.of(name, "gpu").source
    assert book.of("any processor", "cpu").source
    with pytest.raises(NotFound):
        book.of("NVIDIA GB300", "gpu")
