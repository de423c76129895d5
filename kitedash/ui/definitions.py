"""What each number on a page means, in a sentence; docs/metrics.md has the formulas and sources."""

from __future__ import annotations

DEFINITIONS: dict[str, str] = {
    "Highest rate held": (
        "The highest measured request rate at which P90 TTFT keeps its target, P90 TPOT and the error rate keep their "
        "guardrails, and the queue does not grow. It is the marked point of a candidate."
    ),
    "P90 TTFT": (
        "Nine of ten requests got their first token within this time, counted from when the request was due. "
        "Failed requests count as late."
    ),
    "P90 TPOT": "Time per output token after the first, at the 90th percentile of the requests.",
    "Error rate": "Share of a rate's requests that failed or timed out; the guardrail is the most that is tolerated.",
    "End-to-end latency": (
        "From when a request was due to its last token: nine of ten were done within this time. Failed requests "
        "count as late."
    ),
    "Load level": (
        "One offered request rate, measured in several independent blocks. overloaded: the number of requests in the "
        "engine keeps growing, so the rate can't be carried. invalid: a check failed, so it says nothing."
    ),
    "Deployed cost": (
        "USD per 1,000 requests of a whole day with enough replicas for the peak, each at the highest rate held. "
        "The cost target is on this number. A smaller curve point shows what it would be at that rate per replica."
    ),
    "Saturated cost": "USD per 1,000 requests of one replica that is kept busy at the rate, with no idle time.",
    "Pass rate": (
        "Share of the team's own repository questions answered correctly; missing, failed and cut-off answers do not "
        "pass. Public suites are tested beside it and never added to it."
    ),
    "Quality verdict": (
        "A paired test against the baseline: pass if the loss is surely below the margin, fail if surely above it, "
        "inconclusive if the items are too few, uninformative if the baseline itself is near guessing."
    ),
    "Time left": (
        "An estimate with its range: the stage under way by its own pace and by earlier runs, the stages after it by "
        "earlier runs of the same model and number format on the same device, or of the likest there are. Of a waiting "
        "run: until it ends, after those ahead of it. With few earlier runs the range is wide."
    ),
    "Difference": (
        "Of the picked candidate to the one it is compared with. P90 TTFT and cost: relative, with a 95 % interval "
        "formed from the two intervals; pass rate: points on the same items, paired, with a 90 % interval (each end is "
        "a one-sided 95 % bound). Established: the interval excludes no change."
    ),
    "95 % interval": "The range that would hold the true value in 95 of 100 repeats of the whole experiment.",
    "Target status": (
        "meets: the whole 95 % interval is on the right side of the target; misses: all of it is on the wrong side; "
        "else uncertain. One miss makes the candidate miss."
    ),
    "Front": (
        "No other candidate is at least as good in latency, cost and pass rate together and better in one. "
        "Ringed on the chart; how sure that is stands in the table."
    ),
    "Kernel": (
        "The matrix kernel that vLLM says it chose: a number format without its own kernel is converted while it runs."
    ),
}
