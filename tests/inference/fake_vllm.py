"""A small server that speaks vLLM's API over a tiny model of its own: the next token depends on the last one and on the
adapter. It does what the real one does where the engine relies on it; tests/vllm runs the same engine on the real one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from ludus.http.server import serving

WORDS, CONTEXT = 32, 512


def log_softmax(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    return logits - logits.max() - np.log(np.exp(logits - logits.max()).sum())


def next_logits(last: int, shift: float) -> NDArray[np.float64]:
    """The model: base logits by the last token, and what an adapter adds."""
    return np.cos(np.arange(WORDS) * (1 + last % 7)) * 2 + shift * np.sin(np.arange(WORDS))


def spelled(tokens: list[int]) -> str:
    """The text of tokens: a letter each."""
    return "".join(chr(ord("A") + token) for token in tokens)


def penalised(logits: NDArray[np.float64], seen: list[int], penalty: float) -> NDArray[np.float64]:
    """With tokens that are there already made less likely."""
    worse = np.where(logits > 0, logits / penalty, logits * penalty)
    return np.where(np.isin(np.arange(WORDS), seen), worse, logits)


def cut(logits: NDArray[np.float64], top_k: int, top_p: float, min_p: float) -> NDArray[np.float64]:
    """Without the tokens that min-p, top-k and top-p leave out."""
    logits = np.where(logits >= logits.max() + np.log(max(min_p, 1e-300)), logits, -np.inf)
    order = np.argsort(-logits)
    before = np.cumsum(np.exp(log_softmax(logits))[order]) - np.exp(log_softmax(logits))[order]
    keep = (before < top_p) & (np.arange(WORDS) < (top_k or WORDS))
    return np.where(np.isin(np.arange(WORDS), order[keep]), logits, -np.inf)


def score(tokens: list[int], shift: float) -> list[dict[str, dict[str, float]]]:
    """Log-probabilities of all tokens but the first, as vLLM lists them."""
    pairs = pairwise(tokens)
    return [{str(token): {"logprob": float(log_softmax(next_logits(last, shift))[token])}} for last, token in pairs]


class FakeVllm:
    """State and routes."""

    def __init__(
        self, *, processed: bool = False, loads_adapters: bool = True, whole: dict[str, Any] | None = None
    ) -> None:
        self.processed = processed
        self.loads_adapters = loads_adapters
        self.adapters: dict[str, float] = {}
        self.log: list[str] = []
        self.bodies: list[dict[str, Any]] = []
        self.url = ""
        self.probes: dict[tuple[int, ...], list[float]] = {}
        """What a real trainer thinks of the probe's tokens, of the version that was loaded last: no real model is
        here to score them. Nothing is noted of adapters and models that come without a probe."""
        self.whole = FakeWhole(self, is_there=whole is not None, **(whole or {}))

    def restart(self) -> None:
        """Forget what was loaded."""
        self.adapters.clear()

    async def models(self, request: Request) -> Response:
        names = ["base", *self.adapters]
        return JSONResponse({"data": [{"id": name, "max_model_len": CONTEXT} for name in names]})

    async def metrics(self, request: Request) -> Response:
        label = 'engine="0",model_name="base"'
        lines = [f"vllm:num_requests_running{{{label}}} 3.0", f"vllm:num_requests_waiting{{{label}}} 2.0"]
        return PlainTextResponse("\n".join(["# HELP vllm:num_requests_running Running.", *lines, ""]))

    async def load(self, request: Request) -> Response:
        body = await request.json()
        name, folder = body["lora_name"], Path(body["lora_path"])
        self.log.append(f"load {name}")
        if name in self.adapters:
            return _error(400, f"The lora adapter '{name}' has already been loaded.")
        if not (folder / "adapter_config.json").is_file():
            return _error(404, f"Loading lora {name} failed: No adapter found for {folder}")
        if json.loads((folder / "adapter_config.json").read_text())["r"] > 8:
            return _error(500, "LoRA rank 16 is greater than max_lora_rank 8.")
        tensors = load_file(folder / "adapter_model.safetensors")
        self.learn_probe(folder)
        self.adapters[name] = float(sum(tensor.sum() for tensor in tensors.values()))
        return PlainTextResponse(f"Success: LoRA adapter '{name}' added successfully.")

    def learn_probe(self, folder: Path) -> None:
        """Be able to score the version's probe."""
        if (folder / "probe.json").is_file():
            probe = json.loads((folder / "probe.json").read_text())
            self.probes[tuple(probe["tokens"])] = probe["logps"]

    async def unload(self, request: Request) -> Response:
        name = (await request.json())["lora_name"]
        self.log.append(f"unload {name}")
        if self.adapters.pop(name, None) is None:
            return _error(404, f"The lora adapter '{name}' cannot be found.")
        return PlainTextResponse("Success")

    async def complete(self, request: Request) -> Response:
        body = await request.json()
        self.bodies.append(body)
        if body["model"] != "base" and body["model"] not in self.adapters:
            return _error(404, f"The model `{body['model']}` does not exist.")
        if len(body["prompt"]) + body["max_tokens"] > CONTEXT:
            return _error(400, f"This model's maximum context length is {CONTEXT} tokens.")
        if (scores := self.probes.get(tuple(body["prompt"]))) is not None:
            return JSONResponse({"choices": [scored_probe(body["prompt"], scores)]})
        choice = self.sample(body)
        return JSONResponse(
            {"model": body["model"], "choices": [choice], "usage": {"prompt_tokens_details": {"cached_tokens": 3}}}
        )

    def sample(self, body: dict[str, Any]) -> dict[str, Any]:
        rng = np.random.default_rng(body["seed"])
        tokens: list[int] = []
        shown: list[NDArray[np.float64]] = []
        shift = self.adapters.get(body["model"], self.whole.shift)
        finish, stop_reason = "length", None
        while len(tokens) < body["max_tokens"]:
            raw = next_logits([*body["prompt"], *tokens][-1], shift)
            is_greedy = body["temperature"] == 0
            bent = penalised(raw, [*body["prompt"], *tokens], body["repetition_penalty"])
            heat = 1.0 if is_greedy else body["temperature"]
            heated = bent if is_greedy else cut(bent / heat, body["top_k"], body["top_p"], body["min_p"])
            tokens.append(int(bent.argmax()) if is_greedy else int(rng.choice(WORDS, p=np.exp(log_softmax(heated)))))
            shown.append(log_softmax(heated if self.processed else raw))
            if tokens[-1] in body.get("stop_token_ids", []):
                finish = "stop"
                break
            if found := [word for word in body.get("stop", []) if word in spelled(tokens)]:
                assert body["include_stop_str_in_output"]
                finish, stop_reason = "stop", found[0]
                break
        answer: dict[str, Any] = {"token_ids": tokens, "finish_reason": finish, "text": "", "stop_reason": stop_reason}
        if "prompt_logprobs" in body:
            answer["prompt_logprobs"] = [None, *score(body["prompt"], shift)]
        if "logprobs" in body:
            likeliest = [np.argsort(-logps)[: body["logprobs"]] for logps in shown]
            answer["logprobs"] = {
                "token_logprobs": [float(logps[token]) for logps, token in zip(shown, tokens, strict=True)],
                "top_logprobs": [
                    {f"token_id:{place}": float(logps[place]) for place in places}
                    for logps, places in zip(shown, likeliest, strict=True)
                ],
            }
        return answer

    def app(self) -> Starlette:
        routes = [Route("/v1/models", self.models), Route("/v1/completions", self.complete, methods=["POST"])]
        if self.loads_adapters:
            routes += [Route("/v1/load_lora_adapter", self.load, methods=["POST"])]
            routes += [Route("/v1/unload_lora_adapter", self.unload, methods=["POST"])]
        routes += [Route("/metrics", self.metrics), *self.whole.routes()]
        return Starlette(routes=routes, exception_handlers={404: _not_found})


def scored_probe(tokens: list[int], scores: list[float]) -> dict[str, Any]:
    places = [{str(token): {"logprob": logp}} for token, logp in zip(tokens[1:], scores, strict=True)]
    return {"token_ids": [0], "finish_reason": "length", "text": "", "prompt_logprobs": [None, *places]}


class FakeWhole:
    """The routes by which a whole model is exchanged, and what comes of it."""

    def __init__(
        self, server: FakeVllm, *, is_there: bool, is_tied: bool = False, lies: float = 0.0, release: str = "0.32.0"
    ) -> None:
        """`is_tied`: it keeps its output head, as vLLM does; `lies`: nats that its probes are wrong by."""
        self.server, self.is_tied, self.lies = server, is_tied, lies
        self.is_there, self.release = is_there, release
        self.calls: list[str] = []
        self.folders: list[dict[str, tuple[int, ...]]] = []
        self.restart()

    def restart(self) -> None:
        self.shift, self.label, self.is_paused = 0.0, "default", False

    def routes(self) -> list[Route]:
        if not self.is_there:
            return []
        posts = {
            "/pause": self.pause,
            "/resume": self.resume,
            "/collective_rpc": self.reload,
            "/update_weight_version": self.call_it,
            "/inference/v1/generate": self.generate,
        }
        gets = {"/is_paused": self.tell_pause, "/weight_info": self.tell_label, "/version": self.tell_release}
        return [
            *(Route(path, call, methods=["POST"]) for path, call in posts.items()),
            *(Route(path, call) for path, call in gets.items()),
        ]

    async def pause(self, request: Request) -> Response:
        self.is_paused = True
        self.calls.append(f"pause {request.query_params['mode']}")
        return JSONResponse({"status": "paused"})

    async def resume(self, request: Request) -> Response:
        self.is_paused = False
        self.calls.append("resume")
        return JSONResponse({"status": "resumed"})

    async def reload(self, request: Request) -> Response:
        body = await request.json()
        assert body["method"] == "reload_weights"
        assert self.is_paused
        folder = Path(body["kwargs"]["weights_path"])
        self.calls.append("reload")
        tensors = {name: t for path in sorted(folder.glob("*.safetensors")) for name, t in load_file(path).items()}
        self.folders.append({name: tensor.shape for name, tensor in tensors.items()})
        self.shift = float(tensors["model.norm.weight"].sum())
        self.server.learn_probe(folder)
        if not self.is_tied and "lm_head.weight" in tensors and not tensors["lm_head.weight"].any():
            self.server.probes = {tokens: [-3.0] * len(logps) for tokens, logps in self.server.probes.items()}
        elif self.lies:
            self.server.probes = {
                tokens: [logp - self.lies for logp in logps] for tokens, logps in self.server.probes.items()
            }
        return JSONResponse({"results": [None]})

    async def call_it(self, request: Request) -> Response:
        self.label = (await request.json())["new_version"]
        self.calls.append(f"label {self.label.partition('-')[0]}")
        return JSONResponse({"success": True})

    async def generate(self, request: Request) -> Response:
        body = await request.json()
        self.server.bodies.append(body)
        choice = self.server.sample({**body["sampling_params"], "model": body["model"], "prompt": body["token_ids"]})
        content = [{"logprob": logp} for logp in choice["logprobs"]["token_logprobs"]]
        spans = [{"start": 0, "end": len(choice["token_ids"]), "version": self.label}]
        return JSONResponse({"choices": [{**choice, "logprobs": {"content": content}, "weight_versions": spans}]})

    async def tell_pause(self, request: Request) -> Response:
        return JSONResponse({"is_paused": self.is_paused})

    async def tell_release(self, request: Request) -> Response:
        return JSONResponse({"version": self.release})

    async def tell_label(self, request: Request) -> Response:
        return JSONResponse({"weight_version": self.label})


async def _not_found(request: Request, error: Exception) -> Response:
    return JSONResponse({"detail": "Not Found"}, status_code=404)


def _error(status: int, message: str) -> Response:
    return JSONResponse({"error": {"message": message, "type": "x", "param": None, "code": status}}, status_code=status)


@contextmanager
def fake_vllm(*, port: int = 0, **options: Any) -> Iterator[FakeVllm]:
    server = FakeVllm(**options)
    with serving(server.app(), port=port) as url:
        server.url = url
        yield server
