"""What each number on a page means, in a sentence or two; docs/metrics.md has the formulas and sources."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_TARGETS: Final = {
    "Target status": (
        "meets: the whole 95 % interval is on the right side of the target; misses: all of it is on the wrong side; "
        "else uncertain. One miss makes the candidate miss."
    ),
    "95 % interval": "The range that would hold the true value in 95 of 100 repeats of the whole experiment.",
    "Highest rate held": (
        "The highest measured request rate at which P90 TTFT keeps its target, P90 TPOT and the error rate keep their "
        "guardrails, and the queue does not grow. It is the marked point of a candidate."
    ),
}
_COMPARISON: Final = {
    "Front": (
        "No other candidate is at least as good in latency, cost and pass rate together and better in one. "
        "Ringed on the chart; how sure that is stands in the table."
    ),
    "Probability of the front": (
        "How sure the front is: the share of 1,000 draws, from the intervals of the latencies and from the items "
        "answered, in which the candidate is on it."
    ),
    "Difference": (
        "Of the picked candidate to the one it is compared with. P90 TTFT and cost: relative, with a 95 % interval "
        "formed from the two intervals; pass rate: points on the same items, paired, with a 90 % interval (each end is "
        "a one-sided 95 % bound). Established: the interval excludes no change. Noise: no more than the noise floor."
    ),
    "Noise floor": (
        "The baseline's load is measured twice, at the start and at the end of the experiment, under the same "
        "requests: the largest relative difference over the rates that both carried. A smaller difference between two "
        "candidates is called noise. The pass rate has none: greedy answers are not asked for again."
    ),
}
_LATENCY: Final = {
    "P90 TTFT": (
        "Nine of ten requests got their first token within this time, counted from when the request was due. "
        "Failed requests count as late."
    ),
    "P90 TPOT": "Time per output token after the first, at the 90th percentile of the requests.",
    "End-to-end latency": (
        "From when a request was due to its last token: nine of ten were done within this time. Failed requests "
        "count as late."
    ),
    "Attainment": (
        "Share of a rate's requests that got their first token within the TTFT target; failed requests did not. The "
        "target is on nine of ten: an attainment of 90 %."
    ),
    "Goodput": (
        "Requests a second that kept both the TTFT target and the TPOT guardrail and did not fail. Its interval is "
        "that of their share, times the requests a second that were due."
    ),
    "Variance between blocks": (
        "How much of the difference between requests lies between blocks, by their ranks in TTFT: about 0 % where a "
        "block is like any other. A busy queue's is above that, since neighbours wait together; far above it, the "
        "machine changed while it was measured."
    ),
    "Rate search": (
        "After the listed rates more are measured, between the highest one held and the lowest one missed, until these "
        "two are as near to each other as the precision asks, or the blocks are used up. Where the intervals leave "
        'open which of them is held, the answer is "undecided".'
    ),
    "Error rate": "Share of a rate's requests that failed or timed out; the guardrail is the most that is tolerated.",
}
_LOAD: Final = {
    "Load level": (
        "One offered request rate, measured in several independent blocks. overloaded: the number of requests in the "
        "engine keeps growing, so the rate can't be carried. invalid: a check failed, so it says nothing."
    ),
    "Delivered rate": (
        "Requests that the client sent, a second of the measured time. It shows that what was due was sent; "
        "cost goes by what was answered."
    ),
    "Output tokens/s": "Tokens of the answers that ended within the measured time, a second of it.",
    "Prefix hits": "Share of all prompt tokens that the engine found in its prefix cache and did not compute anew.",
    "Most running": "The most requests that the engine had under way at once, of a gauge read four times a second.",
    "Kernel": (
        "The matrix kernel that vLLM says it chose: a number format without its own kernel is converted while it runs."
    ),
}
_PARTS: Final = {
    "Client lateness": (
        "From when a request was due to when the client began to send it. It is the client's own and inside every "
        "TTFT, so a check bounds it."
    ),
    "Front end + HTTP": (
        "What is left of the TTFT without the other parts: HTTP, tokenising, the server's own event loop."
    ),
    "Queue": "In the engine, from queued to scheduled: waiting for a place in the batch.",
    "Prefill": "In the engine, from scheduled to the first token: reading the prompt.",
    "Decode (after the first token)": "In the engine, from the first token to the last. It is no part of the TTFT.",
    "Stall": (
        "A pause between two chunks of an answer of at least three times the rate's median gap and 50 ms: below, it "
        "could be the client's own. In ms: what such pauses took above the median gap. They are inside the decode."
    ),
    "Cause of a slow request": (
        "Worked out from the parts alone: the ms above a request that is sent in time, waits for nobody, finds the "
        "shared prefix in the cache and is as long as the rate's median one. A cause is named from 10 ms and a fifth "
        "of all that is explained; failed requests by their error."
    ),
}
_MEMORY: Final = {
    "Memory stage": (
        "Prompts and requests at once grow until they no longer run together. Fewer run at once where the KV cache or "
        "the batch limit binds; preempted, refused and out of memory: as the engine said."
    ),
    "KV bytes per token": (
        "What the keys and values of a token take in the KV cache of one device. Predicted: from the model's config; "
        "reported: the size of the engine's KV cache over the tokens that it says it holds."
    ),
    "KV tokens": "Tokens that the KV cache of one replica holds, in whole blocks.",
    "Requests at once": (
        "Requests that share nothing and run in the engine at the same time, none preempted. Predicted: what fits into "
        "the KV cache in whole blocks of prompt and answer, or the batch limit if that is less. Seen: the most that "
        "did, of the numbers that were tried."
    ),
    "Longest prompt": "The longest prompt of which at least one request ran; one that is too long is refused.",
    "Answer of a memory step": (
        "The memory stage's output tokens, and so many more that the first request is still being answered when the "
        "last prompt is read: else they would never be in the engine together."
    ),
}
_COST: Final = {
    "Deployed cost": (
        "USD per 1,000 requests of a whole day with enough replicas for the peak, each at the highest rate held. "
        "The cost target is on this number. A smaller curve point shows what it would be at that rate per replica."
    ),
    "Replicas": "The peak rate over the highest rate held, rounded up, and the spare ones of the experiment.",
    "Saturated cost": "USD per 1,000 requests of one replica that is kept busy at the rate, with no idle time.",
}
_QUALITY: Final = {
    "Pass rate": (
        "Share of the team's own repository questions answered correctly; missing, failed and cut-off answers do not "
        "pass. Public suites are tested beside it and never added to it."
    ),
    "Quality verdict": (
        "A paired test against the baseline, a suite at a time: pass if the loss is surely below the margin, fail if "
        "surely above it. uninformative, never a pass: the baseline is not clearly better than guessing, or the items "
        "are so few that even no change at all could not pass, or the two were not asked in the same words. "
        "inconclusive: anything else."
    ),
    "Margin": "The largest loss of items that is tolerated, in points; written down before the run.",
    "Change to the baseline": (
        "Items that only the candidate passes less those that only the baseline passes, in points of all items. Its "
        "interval is the 90 % one, whose ends are the verdict's one-sided 95 % bounds."
    ),
    "Items that would settle it": (
        "About how many items it would take for a verdict: if nothing is really lost or, where the items at hand are "
        "already that many, if the change seen is the true one."
    ),
    "Fixed and broken items": (
        "Fixed: the one looked at passes the item, the one it is compared with does not. Broken: the other way round."
    ),
}
_RUNS: Final = {
    "Expected time": (
        "Of a launch: what earlier runs of the same model and number format took on the same device, or the likest "
        "there are. The range holds what they took and is wide where they are few; it is no promise."
    ),
    "Time left": (
        "An estimate with its range: the stage under way by its own pace and by earlier runs, the stages after it by "
        "earlier runs of the same model and number format on the same device, or of the likest there are. Of a waiting "
        "run: until it ends, after those ahead of it. With few earlier runs the range is wide."
    ),
}

TOPICS: Final[Mapping[str, Mapping[str, str]]] = {
    "Targets": _TARGETS,
    "Front and comparison": _COMPARISON,
    "Latency and errors": _LATENCY,
    "Load": _LOAD,
    "Parts of a request": _PARTS,
    "Memory": _MEMORY,
    "Cost": _COST,
    "Quality": _QUALITY,
    "Runs": _RUNS,
}
DEFINITIONS: Final[Mapping[str, str]] = {term: said for terms in TOPICS.values() for term, said in terms.items()}

# What a page's list of definitions holds: the topics whose numbers it shows.
ON_PAGE: Final[Mapping[str, tuple[str, ...]]] = {
    "tradeoff": ("Targets", "Front and comparison", "Latency and errors", "Load", "Cost", "Quality"),
    "launch": ("Latency and errors", "Memory", "Cost", "Quality", "Runs"),
    "runs": ("Load", "Runs"),
    "run": ("Targets", "Latency and errors", "Load", "Parts of a request", "Memory", "Cost", "Quality", "Runs"),
    "decide": ("Targets", "Front and comparison", "Latency and errors", "Cost", "Quality"),
    "records": ("Targets", "Front and comparison", "Latency and errors", "Cost", "Quality"),
}
