"""A diagnosis in words: what took how long, and what to do about it."""

from __future__ import annotations

from kitedash.domain.diagnosis import LATE_CLIENT, REUSED, Cause, Diagnosis, Explained
from kitedash.domain.wording import milliseconds, number, percent


def sentence(found: Diagnosis) -> str:
    """What took how long, and what to do about the first cause."""
    return f"{explanation(found)} {advice(found)}".strip()


def explanation(found: Diagnosis) -> str:
    """The numbers and the causes in their order."""
    facts = found.facts
    if found.main is Cause.FAILED:
        return f"{f'Most of these {facts.n:,} requests' if found.of_several else 'It'} failed: {found.error}."
    end = "last token" if found.to_the_last else "first token"
    who = "They took, on average," if found.of_several else "It took"
    took = f"{who} {milliseconds(facts.took_ms)} to the {end}"
    unknown = "" if found.timings_known else " The engine reported no timings, so its own parts are not known."
    if not found.causes:
        usual = (
            f" Nothing stands out: it is what {number(facts.tokens_in - facts.tokens_cached)} computed prompt tokens "
            "take, with no wait worth naming."
        )
        return f"{took}.{usual if found.timings_known else unknown}"
    first, *others = found.causes
    said = f"{took}, of which about {milliseconds(first.ms)} {_share(first, facts.took_ms)}{phrase(first, found)}."
    if others:
        said += f" Further: {'; '.join(f'about {milliseconds(one.ms)} {phrase(one, found)}' for one in others)}."
    return said + unknown


def _share(cause: Explained, took_ms: float) -> str:
    return f"({percent(min(1.0, cause.ms / took_ms))}) " if took_ms > 0 else ""


def phrase(one: Explained, found: Diagnosis) -> str:
    """What a cause is, with the numbers that show it."""
    facts, usual = found.facts, found.usual
    computed = number(facts.tokens_in - facts.tokens_cached)
    if one.cause is Cause.PREFIX:
        return (
            f"because the shared prefix was not reused: {computed} of {number(facts.tokens_in)} prompt tokens were "
            f"computed, {number(facts.cached_intended)} of them should have come from the cache"
        )
    if one.cause is Cause.LONG_PROMPT:
        return (
            f"because of a long prompt: {computed} tokens to compute with the prefix cached as intended, where the "
            f"median request of this rate has {number(usual.computed_tokens)}"
        )
    if one.cause is Cause.SLOW_PREFILL:
        return f"because the prefill of {computed} tokens took longer than as many tokens do at this rate"
    if one.cause is Cause.LONG_ANSWER:
        return (
            f"because of a long answer: {number(facts.tokens_out)} tokens, where the median request has "
            f"{number(usual.tokens_out)}"
        )
    if one.cause is Cause.SLOW_DECODE:
        return f"because its tokens came slower than the usual {milliseconds(usual.token_ms)} each"
    return _PHRASES[one.cause]


_PHRASES = {
    Cause.QUEUE: "waiting in the engine's queue for a place in the batch",
    Cause.CLIENT: "because the load client sent it late",
    Cause.FRONT_END: "in front of the engine: HTTP, tokenising and the server's event loop, or a client that read late",
    Cause.STALLS: "in stalls between tokens",
    Cause.FAILED: "failed",
}


def advice(found: Diagnosis) -> str:
    """What to do about the main cause; "" where there is none."""
    if found.main is Cause.PREFIX:
        if not found.prefix_caching:
            return "Prefix caching is off for this candidate: switch enable-prefix-caching on."
        if found.usual.reused < REUSED:
            return (
                f"Only {percent(found.usual.reused)} of the requests of this rate found the prefix, so the prompts "
                "differ before it ends: look for what changes at the head of the system prompt, such as a time stamp, "
                "and move it behind the shared text."
            )
        return (
            f"{percent(found.usual.reused)} of the requests of this rate found it, so it was thrown out of the cache "
            "in between: give the KV cache more memory or run fewer requests at once."
        )
    if found.main is Cause.FRONT_END and found.usual.late >= LATE_CLIENT:
        return (
            f"{percent(found.usual.late)} of the requests of this rate were sent late, so the load client may have "
            "read late too: free its cores or give it more processes (load.client_processes) and measure again."
        )
    return _ADVICE[found.main] if found.main is not None else ""


_ADVICE = {
    Cause.FAILED: "Look into the engine's log at that moment; after a time-out, at what the others waited for.",
    Cause.QUEUE: (
        "Look at the server's timeline: with all places taken raise max-num-seqs, with a full KV cache give it more "
        "memory; else add replicas, since the rate is near what one carries."
    ),
    Cause.LONG_PROMPT: (
        "Shorten what such prompts carry, move what they have in common into the shared prefix, or serve them apart; "
        "max-num-batched-tokens decides how long the others wait for them."
    ),
    Cause.CLIENT: (
        "This is the measuring client and not the server: free its cores or give it more processes "
        "(load.client_processes) and measure again."
    ),
    Cause.FRONT_END: "Give the server's front end more cores, and see that the load client has its own.",
    Cause.SLOW_PREFILL: (
        "It shared its steps with other requests: a larger max-num-batched-tokens ends a prefill sooner, fewer "
        "requests at once leave it more."
    ),
    Cause.STALLS: (
        "The prefill of other prompts or a preemption held it up: the server's timeline shows preemptions; a smaller "
        "max-num-batched-tokens shortens the pauses that others' prompts cause."
    ),
    Cause.LONG_ANSWER: "The answer's length is what the workload asks for.",
    Cause.SLOW_DECODE: "More requests ran beside it than usually: a lower max-num-seqs speeds each of them up.",
}
