"""The traffic that a deployment must carry: how much of it, of what kinds and sizes, and when it arrives."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import ClassVar, Literal

from pydantic import Field, model_validator

from kitedash.domain.schema_base import Positive, Strict, broken_rule

Arrivals = Literal["poisson", "constant", "gamma"]
Kind = Literal["chat", "completion"]
NAME = r"^[A-Za-z0-9][A-Za-z0-9._ -]{0,79}$"
LEAST_OWN_TOKENS = 4  # behind the prefix, so that each question is unique
MOST_SHARE = 0.999  # of a length's distribution: longer ones are cut off there
MOST_SPREAD = 20  # P90 over P50
THE_ONE_KIND = "shared"  # what requests are called by: all are of one kind
REPLAYED = "replayed"  # and those of a trace


def drawn_tokens(uniform: float, p50: int, p90: int | None, least: int) -> int:
    """A length in tokens from a uniform number in (0, 1): log-normal with that P50 and P90, cut off at its 99.9th
    percentile and at `least`. Without a P90 it is the P50."""
    if p90 is None:
        return p50
    z = NormalDist().inv_cdf(min(max(uniform, 1e-9), MOST_SHARE))
    return max(least, round(p50 * math.exp(z * math.log(p90 / p50) / NormalDist().inv_cdf(0.9))))


def most_tokens(p50: int, p90: int | None) -> int:
    """The longest length that `drawn_tokens` gives."""
    return drawn_tokens(1.0, p50, p90, 1)


class Requests(Strict):
    """What the requests of one kind look like. Where a P90 of the tokens is given, lengths vary (log-normal)."""

    LATER: ClassVar[frozenset[str]] = frozenset(
        {"kind", "input_tokens_p90", "output_tokens_p90", "timestamp_first", "turns", "think_time_s"}
    )

    kind: Kind = Field("chat", description="which endpoint is asked: chat, or completion for text to be continued")
    input_tokens: int = Field(
        6_000, ge=8, le=1_000_000, description="prompt tokens of a request, as the server counts; the P50 if they vary"
    )
    input_tokens_p90: int | None = Field(
        None, ge=8, le=1_000_000, description="P90 of the prompt tokens; empty: all prompts have the same length"
    )
    shared_prefix_tokens: int = Field(5_700, ge=0, description="leading prompt tokens that all requests share")
    timestamp_first: bool = Field(
        False, description="whether a time stamp stands at the head of the system prompt, so that no prefix is reused"
    )
    output_tokens: int = Field(400, ge=1, le=100_000, description="tokens of an answer; the P50 if they vary")
    output_tokens_p90: int | None = Field(
        None, ge=1, le=100_000, description="P90 of the output tokens; empty: all answers have the same length"
    )
    turns: int = Field(1, ge=1, le=50, description="requests of a session, each with the conversation before it")
    think_time_s: float = Field(
        0.0, ge=0, le=3_600, allow_inf_nan=False, description="mean seconds from an answer's end to the next turn"
    )

    @model_validator(mode="after")
    def _sizes_go_together(self) -> Requests:
        if not self._sizes_count:
            return self
        if self.shared_prefix_tokens > self.input_tokens - LEAST_OWN_TOKENS:
            raise broken_rule(
                "shared_prefix_tokens",
                f"must be at least {LEAST_OWN_TOKENS} below input_tokens ({self.input_tokens:,}), so that each "
                f"question is unique, not {self.shared_prefix_tokens:,}",
            )
        for name in ("input_tokens", "output_tokens"):
            p50, p90 = getattr(self, name), getattr(self, f"{name}_p90")
            if p90 is not None and not p50 < p90 <= MOST_SPREAD * p50:
                raise broken_rule(
                    f"{name}_p90", f"must be above {name} ({p50:,}) and at most {MOST_SPREAD} times it, not {p90:,}"
                )
        if self.kind == "completion" and self.turns > 1:
            raise broken_rule("turns", f"must be 1 where kind is completion, which has no turns, not {self.turns}")
        return self

    @property
    def _sizes_count(self) -> bool:
        return True

    @property
    def most_input_tokens(self) -> int:
        """The longest prompt that is drawn, tokens: the last turn of a session holds all that came before it."""
        first = most_tokens(self.input_tokens, self.input_tokens_p90)
        added = first - self.shared_prefix_tokens + self.most_output_tokens
        return first + (self.turns - 1) * added

    @property
    def most_output_tokens(self) -> int:
        """The longest answer that is asked for, tokens."""
        return most_tokens(self.output_tokens, self.output_tokens_p90)


class RequestClass(Requests):
    """One kind of requests in a mix. `weight` is a share of the requests, turns counted one by one."""

    name: str = Field(pattern=NAME, description="name of the kind of requests, unique in the mix")
    weight: Positive = Field(1.0, le=10**6, description="how many of the requests are of this kind, against the others")


# What a trace says of each request, and what it leaves to the workload.
_OF_A_TRACE = frozenset({"kind", "shared_prefix_tokens"})
_BY_A_TRACE = frozenset(Requests.model_fields) - _OF_A_TRACE | {"arrivals", "burstiness"}


class Workload(Requests):
    """The traffic that the deployment must carry; `requests_per_day` sizes the deployed cost.

    All requests are of one kind, or of several (`mix`), or those of a recorded trace. What then counts for nothing may
    not be written, and is not stored.
    """

    LATER: ClassVar[frozenset[str]] = Requests.LATER | {"burstiness", "mix", "trace"}

    users: int = Field(10_000, ge=1, le=10**10, description="active users a day")
    requests_per_user_per_day: Positive = Field(20, le=10**6, description="requests that one user sends a day")
    peak_factor: float = Field(
        5.0, ge=1, le=1_000, allow_inf_nan=False, description="arrival rate of the busiest hour over that of the day"
    )
    arrivals: Arrivals = Field("poisson", description="arrival process")
    burstiness: float = Field(
        1.0,
        ge=0.01,
        le=100,
        allow_inf_nan=False,
        description="squared coefficient of variation of gamma arrivals' gaps: 1 is poisson, 4 is bursty, 0.25 regular",
    )
    mix: tuple[RequestClass, ...] = Field((), max_length=12, description="several kinds of requests instead of one")
    trace: str | None = Field(None, pattern=NAME, description="name of an imported trace that is replayed")
    spare_replicas: int = Field(0, ge=0, le=10_000, description="replicas kept beyond those that carry the peak")

    @model_validator(mode="after")
    def _nothing_counts_for_nothing(self) -> Workload:
        names = [one.name for one in self.mix]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise broken_rule("mix", f"holds {twice!r} twice; give each kind of requests a name of its own")
        if self.mix and self.trace is not None:
            raise broken_rule("trace", "can't stand beside a mix: a trace says itself what its requests are")
        for name in type(self).model_fields:
            if not self.counts(name) and getattr(self, name) != type(self).model_fields[name].default:
                beside = "a mix; write it in each kind of the mix" if self.mix else "a trace, which says it itself"
                raise broken_rule(name, f"counts for nothing beside {beside}")
        return self

    @property
    def _sizes_count(self) -> bool:
        return not self.mix and self.trace is None

    def is_written(self, name: str) -> bool:
        return self.counts(name) and super().is_written(name)

    def counts(self, name: str) -> bool:
        """Whether a field says something beside the mix or the trace."""
        if self.mix:
            return name not in Requests.model_fields
        return self.trace is None or name not in _BY_A_TRACE

    @property
    def classes(self) -> tuple[RequestClass, ...]:
        """The kinds of requests; of a trace, the one that holds what it does not say."""
        if self.mix:
            return self.mix
        given = {name: getattr(self, name) for name in Requests.model_fields}
        name = THE_ONE_KIND if self.trace is None else REPLAYED
        return (RequestClass.model_construct(name=name, weight=1.0, **given),)  # checked as the workload's own

    @property
    def main_class(self) -> RequestClass:
        """The kind that most requests are of; of equals, the first."""
        return max(self.classes, key=lambda one: one.weight)

    @property
    def longest_request_tokens(self) -> int:
        """Of the longest request, prompt and answer, as they must fit into the context. Says nothing of a trace."""
        return max(one.most_input_tokens + one.most_output_tokens for one in self.classes)

    @property
    def mean_output_tokens(self) -> float | None:
        """Tokens of an answer over all kinds, by their P50; None where only the trace knows."""
        if self.trace is not None:
            return None
        return sum(one.weight * one.output_tokens for one in self.classes) / sum(one.weight for one in self.classes)

    @property
    def dispersion(self) -> float:
        """Variance of the number of requests in a long time over its mean: 1 for Poisson. Sessions come as a whole, so
        they come in bursts. Says nothing of a trace."""
        of_starts = self.burstiness if self.arrivals == "gamma" else 1.0
        starts = [one.weight / one.turns for one in self.classes]
        mean = sum(one.weight for one in self.classes) / sum(starts)
        square = sum(one.weight * one.turns for one in self.classes) / sum(starts)
        return (square + (of_starts - 1) * mean**2) / mean

    @property
    def requests_per_day(self) -> float:
        return self.users * self.requests_per_user_per_day

    @property
    def mean_rate_per_s(self) -> float:
        return self.requests_per_day / 86_400

    @property
    def peak_rate_per_s(self) -> float:
        return self.mean_rate_per_s * self.peak_factor
