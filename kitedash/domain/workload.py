"""The traffic that a deployment must carry: how much of it, of what size, and when it arrives."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import ClassVar, Literal

from pydantic import Field, model_validator

from kitedash.domain.schema_base import Positive, Strict, broken_rule

Arrivals = Literal["poisson", "constant", "gamma"]
LEAST_OWN_TOKENS = 4  # behind the prefix, so that each question is unique
MOST_SHARE = 0.999  # of a length's distribution: longer ones are cut off there
MOST_SPREAD = 20  # P90 over P50
THE_ONE_KIND = "shared"  # what requests are called by: all are of one kind


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


class Workload(Strict):
    """The traffic that the deployment must carry; `requests_per_day` sizes the deployed cost.

    Where a P90 of the tokens is given, lengths vary from request to request (log-normal) around the P50.
    """

    LATER: ClassVar[frozenset[str]] = frozenset(
        {"input_tokens_p90", "output_tokens_p90", "timestamp_first", "burstiness"}
    )

    users: int = Field(10_000, ge=1, le=10**10, description="active users a day")
    requests_per_user_per_day: Positive = Field(20, le=10**6, description="requests that one user sends a day")
    peak_factor: float = Field(
        5.0, ge=1, le=1_000, allow_inf_nan=False, description="arrival rate of the busiest hour over that of the day"
    )
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
    arrivals: Arrivals = Field("poisson", description="arrival process")
    burstiness: float = Field(
        1.0,
        ge=0.01,
        le=100,
        allow_inf_nan=False,
        description="squared coefficient of variation of gamma arrivals' gaps: 1 is poisson, 4 is bursty, 0.25 regular",
    )
    spare_replicas: int = Field(0, ge=0, le=10_000, description="replicas kept beyond those that carry the peak")

    @model_validator(mode="after")
    def _prefix_leaves_room(self) -> Workload:
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
        return self

    @property
    def most_input_tokens(self) -> int:
        """The longest prompt that is drawn, tokens."""
        return most_tokens(self.input_tokens, self.input_tokens_p90)

    @property
    def most_output_tokens(self) -> int:
        """The longest answer that is asked for, tokens."""
        return most_tokens(self.output_tokens, self.output_tokens_p90)

    @property
    def requests_per_day(self) -> float:
        return self.users * self.requests_per_user_per_day

    @property
    def mean_rate_per_s(self) -> float:
        return self.requests_per_day / 86_400

    @property
    def peak_rate_per_s(self) -> float:
        return self.mean_rate_per_s * self.peak_factor
