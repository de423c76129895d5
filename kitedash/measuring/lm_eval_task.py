"""`python -m kitedash.measuring.lm_eval_task JOB`: the process that lm-eval runs in.

Beside JOB it writes `progress` (requests answered so far) and `outcome.json`: `samples`, or `refused` / `error` with
one sentence. Its exit status is 0 only with samples.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

SEED: Final = 1
MAX_RETRIES: Final = 3
REQUEST_TIMEOUT_S: Final = 600
PREFLIGHT_TEXT: Final = "The capital of France is Paris, and the capital of Italy is Rome."


class LogProbabilityError(Exception):
    """A reply without the log-probabilities that a score needs. lm-eval would score it as chance, without a word."""


def check_log_probabilities(reply: dict[str, Any], prompts: Sequence[Sequence[int]]) -> None:
    """Raises LogProbabilityError unless each prompt got one finite log-probability a token after its first (none for
    the first, and one for the token generated), and they are not all zero."""
    choices = reply.get("choices") or []
    if len(choices) != len(prompts):
        raise LogProbabilityError(f"the engine sent {len(choices)} results for {len(prompts)} prompts")
    for choice in choices:
        tokens = len(prompts[choice["index"]])
        values = (choice.get("logprobs") or {}).get("token_logprobs")
        if not isinstance(values, list):
            raise LogProbabilityError("the engine sends no log-probabilities of the prompt")
        if len(values) != tokens + 1:
            raise LogProbabilityError(
                f"the engine sent {len(values)} log-probabilities for a prompt of {tokens} tokens"
            )
        scored = values[1:]
        if any(not isinstance(value, int | float) or not math.isfinite(value) or value > 1e-4 for value in scored):
            raise LogProbabilityError("the engine sent log-probabilities that are none: missing, infinite or above 0")
        if all(value == 0 for value in scored):
            raise LogProbabilityError("the engine sent log-probabilities that are all 0")


def build_model(job: dict[str, Any], progress_path: Path) -> Any:
    """lm-eval's client of a completions endpoint; it counts answers, checks each reply, and never cuts a prompt."""
    from lm_eval.models.openai_completions import LocalCompletionsAPI

    class CheckedCompletions(LocalCompletionsAPI):  # type: ignore[misc]
        answered = 0

        def parse_logprobs(self, outputs: Any, tokens: Any = None, ctxlens: Any = None, **kwargs: Any) -> Any:
            check_log_probabilities(outputs, tokens)
            parsed = LocalCompletionsAPI.parse_logprobs(outputs=outputs, tokens=tokens, ctxlens=ctxlens, **kwargs)
            self.answered += len(parsed)
            progress_path.write_text(str(self.answered), encoding="utf-8")
            return parsed

        def batch_loglikelihood_requests(self, chunks: Any) -> Any:
            listed = [list(chunk) for chunk in chunks]
            longest = max((len(context) + len(ending) for chunk in listed for _, context, ending in chunk), default=0)
            if longest > self.max_length:
                raise LogProbabilityError(f"an item has {longest} tokens, the engine's context holds {self.max_length}")
            return super().batch_loglikelihood_requests(listed)

    return CheckedCompletions(
        model=job["model"],
        base_url=job["base_url"],
        tokenizer=job["tokenizer"],
        tokenizer_backend="huggingface",
        num_concurrent=job["num_concurrent"],
        max_length=job["max_length"],
        max_retries=MAX_RETRIES,
        timeout=REQUEST_TIMEOUT_S,
        seed=SEED,
    )


def preflight(model: Any) -> None:
    """One scoring before the hundreds, so that an engine that can't do it is told at once."""
    import requests

    prompt = model.tok_encode(PREFLIGHT_TEXT)
    reply = requests.post(
        model.base_url,
        json=model._create_payload([prompt], generate=False, seed=SEED),
        headers=model.header,
        timeout=REQUEST_TIMEOUT_S,
    )
    if reply.status_code != 200:
        raise LogProbabilityError(f"the engine refused a scoring (HTTP {reply.status_code}: {reply.text[:300]})")
    check_log_probabilities(reply.json(), [prompt])


def evaluate(job: dict[str, Any], folder: Path) -> list[dict[str, Any]]:
    """What lm-eval found for each item: log-likelihoods of the endings, acc_norm, hash of the prompt."""
    import yaml
    from lm_eval import simple_evaluate
    from lm_eval.tasks import TaskManager

    tasks = folder / "tasks"
    tasks.mkdir(exist_ok=True)
    task = yaml.safe_load(Path(job["task_file"]).read_text(encoding="utf-8"))
    task["dataset_kwargs"] = {"data_files": {"test": job["data_file"]}}
    (tasks / f"{job['task']}.yaml").write_text(yaml.safe_dump(task), encoding="utf-8")
    model = build_model(job, folder / "progress")
    preflight(model)
    # No cache of any kind: lm-eval's are keyed by the prompt or the task's name, and would hand one candidate the
    # answers of another.
    found = simple_evaluate(
        model=model,
        tasks=[job["task"]],
        task_manager=TaskManager(include_path=str(tasks), include_defaults=False),
        log_samples=True,
        bootstrap_iters=0,
        use_cache=None,
        cache_requests=False,
        random_seed=SEED,
        numpy_random_seed=SEED,
        torch_random_seed=SEED,
        fewshot_random_seed=SEED,
    )
    return [
        {
            "id": sample["doc"]["id"],
            "loglikelihoods": [float(response[0]) for response in sample["filtered_resps"]],
            "acc_norm": float(sample["acc_norm"]),
            "prompt_hash": sample["prompt_hash"],
        }
        for sample in found["samples"][job["task"]]
        if sample["filter"] == "none"
    ]


def sentence(error: BaseException) -> str:
    """One line on what went wrong, without a traceback."""
    import aiohttp
    import requests

    text = " ".join(str(error).split())[:300]
    if isinstance(error, aiohttp.ClientConnectionError | requests.ConnectionError):
        return f"the engine stopped answering ({text})."
    if isinstance(error, aiohttp.ClientResponseError):
        return f"a request failed {MAX_RETRIES} times (HTTP {error.status}: {error.message})."
    if isinstance(error, TimeoutError | requests.Timeout):
        return f"a request had no answer within {REQUEST_TIMEOUT_S} s, {MAX_RETRIES} times."
    return f"{type(error).__name__}: {text}"


def main(argv: Sequence[str]) -> int:
    job_path = Path(argv[0])
    outcome: dict[str, Any]
    try:
        outcome = {"samples": evaluate(json.loads(job_path.read_text(encoding="utf-8")), job_path.parent)}
    except LogProbabilityError as refusal:
        outcome = {"refused": f"{refusal}."}
    except Exception as error:
        outcome = {"error": sentence(error)}
        import traceback

        traceback.print_exc()  # into the log; the reader gets the sentence
    (job_path.parent / "outcome.json").write_text(json.dumps(outcome), encoding="utf-8")
    return 0 if "samples" in outcome else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
