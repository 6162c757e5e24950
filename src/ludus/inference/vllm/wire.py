"""What goes to a vLLM server and what comes back, checked: completions by token ids, with log-probabilities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ludus.errors import PolicyError
from ludus.inference.protocol import Completion, Request, Sampling

PROBED = 5
"""Likeliest tokens whose log-probabilities a probe looks at."""
PROBE_PROMPT = 64
"""Tokens of a prompt that a probe uses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFacts:
    """What must be known of a server before its answers can be used."""

    context: int
    is_processed: bool
    """Whether log-probabilities are those after temperature, penalty, top-p, top-k and min-p; otherwise they are the
    model's own."""

    def must_score(self, sampling: Sampling) -> bool:
        """Whether log-probabilities come after what bends them, so that the model's own must be asked for."""
        if sampling.temperature == 0:
            return self.is_processed and sampling.repetition_penalty != 1
        return self.is_processed and sampling.temperature == 1 and sampling.is_bent

    def problem_with(self, sampling: Sampling) -> str:
        """Why log-probabilities would not be what `Sampling` promises; empty if they are."""
        if sampling.temperature in (0, 1):
            return ""
        if self.is_processed and sampling.is_bent:
            return (
                f"it cannot give log-probabilities at temperature {sampling.temperature:g} before top_p, top_k, min_p "
                "and repetition_penalty; sample without them, or at temperature 1"
            )
        if not self.is_processed:
            return (
                f"its log-probabilities are those at temperature 1, not {sampling.temperature:g}; start it with "
                "--logprobs-mode processed_logprobs, or sample at temperature 1"
            )
        return ""


def completion_body(request: Request, model: str) -> dict[str, Any]:
    """One request. Everything that shapes the distribution is said, lest the model's own defaults do."""
    sampling = request.sampling
    return {
        **_common(request.prompt, model, sampling.temperature, request.seed),
        "max_tokens": sampling.max_tokens,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k,
        "min_p": sampling.min_p,
        "repetition_penalty": sampling.repetition_penalty,
        "stop_token_ids": sorted(sampling.stop_tokens),
        "logprobs": 0,
        **_stops(sampling),
    }


def _stops(sampling: Sampling) -> dict[str, Any]:
    """Strings that end a reply, looked for in its text without marks, as in the engine local."""
    if not sampling.stop:
        return {}
    return {"stop": list(sampling.stop), "include_stop_str_in_output": True, "skip_special_tokens": True}


def probe_body(prompt: Sequence[int], model: str, temperature: float) -> dict[str, Any]:
    """A request for one token that shows how log-probabilities depend on the temperature."""
    body = _common(prompt[:PROBE_PROMPT], model, temperature, 0)
    return {**body, "max_tokens": 1, "top_p": 1.0, "top_k": 0, "logprobs": PROBED}


def scoring_body(request: Request, tokens: Sequence[int], model: str) -> dict[str, Any]:
    """A request for the model's own log-probabilities of a completion; the one token that must be drawn is dropped."""
    return prompt_scoring_body([*request.prompt, *tokens], model)


def prompt_scoring_body(tokens: Sequence[int], model: str) -> dict[str, Any]:
    """A request for the model's own log-probabilities of tokens."""
    body = _common(tokens, model, 1.0, 0)
    return {**body, "max_tokens": 1, "top_p": 1.0, "top_k": 0, "prompt_logprobs": 0}


def generate_body(request: Request, model: str) -> dict[str, Any]:
    """One request to `/inference/v1/generate`, whose answer says which weights wrote which tokens."""
    said = completion_body(request, model)
    tokens = said.pop("prompt")
    for key in ("model", "return_token_ids", "return_tokens_as_token_ids"):
        del said[key]
    return {"model": model, "token_ids": tokens, "sampling_params": said}


def as_completion(answer: Mapping[str, Any]) -> dict[str, Any]:
    """The answer to `generate_body` as one to `completion_body`."""
    try:
        choice = answer["choices"][0]
        content = choice["logprobs"]["content"]
        said = {
            "token_ids": choice["token_ids"],
            "finish_reason": choice["finish_reason"],
            "logprobs": {"token_logprobs": [place["logprob"] for place in content]},
            "stop_reason": choice.get("stop_reason"),
        }
    except (KeyError, IndexError, TypeError) as error:
        what = f"{type(error).__name__}: {error}"
        raise PolicyError(f"the server's answer has no token ids with log-probabilities ({what})") from None
    return {"choices": [said], "usage": answer.get("usage")}


def read_versions(answer: Mapping[str, Any], count: int) -> list[tuple[str, int]]:
    """The labels of the weights that wrote the tokens of an answer to `generate_body`, and how many each."""
    try:
        spans = answer["choices"][0]["weight_versions"]
        found = [(str(span["version"]), int(span["end"]) - int(span["start"])) for span in spans]
    except (KeyError, IndexError, TypeError, ValueError) as error:
        what = f"{type(error).__name__}: {error}"
        raise PolicyError(f"the server's answer does not say which weights wrote it ({what}); is it 0.32?") from None
    if sum(length for _, length in found) != count or any(length < 1 for _, length in found):
        raise PolicyError(f"the server's answer says which weights wrote {found} of {count} tokens")
    return found


def read_scores(answer: Mapping[str, Any], tokens: Sequence[int]) -> NDArray[np.float32]:
    """Log-probabilities of the last tokens of a prompt that was scored, `[n]`."""
    try:
        places = answer["choices"][0]["prompt_logprobs"][-len(tokens) :]
        scores = [place[str(token)]["logprob"] for place, token in zip(places, tokens, strict=True)]
        return np.array(scores, np.float32)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        what = f"{type(error).__name__}: {error}"
        raise PolicyError(f"the server's answer has no log-probabilities of the prompt ({what})") from None


def gap_of_probe(answer: Mapping[str, Any]) -> float:
    """How far the likeliest tokens of a probe's answer are apart."""
    try:
        likeliest = sorted(map(float, answer["choices"][0]["logprobs"]["top_logprobs"][0].values()), reverse=True)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise PolicyError(f"the server gives no log-probabilities: {type(error).__name__}: {error}") from None
    if not likeliest or likeliest[0] > 1e-3:
        raise PolicyError("the server gives logits for log-probabilities; start it with --logprobs-mode raw_logprobs")
    return likeliest[0] - likeliest[:PROBED][-1]


def read_completion(
    answer: Mapping[str, Any], request: Request, scores: NDArray[np.float32] | None = None
) -> Completion:
    """The completion in an answer, with `scores` for its log-probabilities if there are any.

    Raises:
        PolicyError: something in it is missing or does not fit the request.
    """
    try:
        choice = answer["choices"][0]
        tokens = np.array(choice["token_ids"], np.int32)
        logps = np.array(choice["logprobs"]["token_logprobs"], np.float32)
        reason = choice["finish_reason"]
    except (KeyError, IndexError, TypeError, ValueError, OverflowError) as error:
        what = f"{type(error).__name__}: {error}"
        raise PolicyError(f"the server's answer has no token ids with log-probabilities ({what})") from None
    problem = _problem(tokens, logps, reason, choice.get("stop_reason"), request.sampling)
    if problem:
        raise PolicyError(f"the server's answer cannot be used: {problem}")
    return Completion(
        tokens=tokens,
        logps=np.minimum(logps if scores is None else scores, np.float32(0)),
        values=np.zeros(len(tokens), np.float32),
        policy=request.policy,
        finish=reason,
    )


def cached_tokens(answer: Mapping[str, Any]) -> int:
    """Tokens of the prompt that the server had computed before; 0 where it does not say."""
    usage = answer.get("usage")
    details = usage.get("prompt_tokens_details") if isinstance(usage, dict) else None
    cached = details.get("cached_tokens") if isinstance(details, dict) else None
    return cached if isinstance(cached, int) else 0


def _problem(tokens: Any, logps: Any, reason: object, stopped_at: object, sampling: Sampling) -> str:
    if reason not in ("stop", "length"):
        return f"it finished because of {reason!r}"
    if not 1 <= len(tokens) <= sampling.max_tokens or tokens.ndim != 1:
        return f"it has {len(tokens)} tokens where 1 to {sampling.max_tokens} were asked for"
    if logps.shape != tokens.shape or not np.isfinite(logps).all():
        return f"there are {logps.size} log-probabilities for {tokens.size} tokens, or some are not finite"
    if reason == "stop" and int(tokens[-1]) not in sampling.stop_tokens and stopped_at not in sampling.stop:
        return f"it stopped at token {int(tokens[-1])}, which is no stop token of the request"
    return ""


def _common(prompt: Sequence[int], model: str, temperature: float, seed: int) -> dict[str, Any]:
    return {
        "model": model,
        "prompt": list(prompt),
        "temperature": temperature,
        "seed": seed % 2**63,
        "min_p": 0.0,
        "repetition_penalty": 1.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "ignore_eos": True,
        "skip_special_tokens": False,
        "return_token_ids": True,
        "return_tokens_as_token_ids": True,
    }
