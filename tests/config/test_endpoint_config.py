"""`explore.endpoints` and `explore.judge`: what may stand there, and that no key ever does."""

from __future__ import annotations

import pytest

from ludus.config import RunConfig, build_config, describe, dump_config, resolve
from ludus.config.loading.load import parse_config, parse_resolved
from ludus.config.loading.resume import check_resumable
from ludus.config.sections.explore import EndpointConfig
from ludus.errors import ConfigError

SECRET = "gsk_4f9a8c7e6d5b4a3f2e1d"  # noqa: S105
GPT = "explore.endpoints={gpt: {model: gpt-5-mini}}"
AGAINST = "evaluate.against=[gpt]"
LOCAL = "explore.endpoints.gpt.url=http://127.0.0.1:8000/v1"


def make(*overrides: str) -> RunConfig:
    values = {"name": "x", "games": ["open_spiel:tic_tac_toe"], "policy": {"model": {"path": "ludus/tiny"}}}
    return build_config(values, overrides)


def test_an_endpoint_is_a_fixed_player_that_check_tells_of() -> None:
    judge = "explore.judge={endpoint: gpt, rubric: Is it polite?, weight: 0.5, highest: 10}"
    limits = ("explore.endpoints.gpt.prompt_price=2", "explore.endpoints.gpt.max_cost=5")
    config = resolve(make(GPT, "league.opponents=[{kind: fixed, players: [gpt, random]}]", judge, *limits))
    rows = dict(describe(config))
    assert rows["endpoint gpt"] == ("gpt-5-mini at https://api.openai.com/v1, key from OPENAI_API_KEY, costs at most 5")
    assert rows["judge"] == "gpt, whose score from 0 to 10 counts 0.5 times"
    assert parse_config(dump_config(config), "config.yaml") == config


def test_the_key_of_openai_goes_nowhere_else_unless_it_is_told_to() -> None:
    assert make(GPT).explore.endpoints["gpt"].key_variable == "OPENAI_API_KEY"
    assert make(GPT, LOCAL).explore.endpoints["gpt"].key_variable is None
    assert make(GPT, LOCAL, "explore.endpoints.gpt.key_variable=A_KEY").explore.endpoints["gpt"].key_variable == "A_KEY"
    assert make(GPT, "explore.endpoints.gpt.key_variable=null").explore.endpoints["gpt"].key_variable is None


@pytest.mark.parametrize("key", ["key", "api_key", "key_variable", "options.api_key", "options.Authorization"])
def test_a_key_in_the_file_is_refused_and_not_repeated(key: str) -> None:
    with pytest.raises(ConfigError) as refused:
        resolve(make(GPT, AGAINST, f"explore.endpoints.gpt.{key}={SECRET}"))
    (line,) = refused.value.problems
    assert f"explore.endpoints.gpt.{key}: " in line
    assert SECRET not in line


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        (
            ["explore.endpoints={gpt: {}}", AGAINST],
            "command line  explore.endpoints.gpt.model: missing; expected text",
        ),
        (
            [GPT, AGAINST, "explore.endpoints.gpt.retrys=2"],
            "command line  explore.endpoints.gpt.retrys: unknown key — did you mean explore.endpoints.gpt.retries?",
        ),
        (
            [GPT, AGAINST, "explore.endpoints.gpt.max_cost=-1"],
            "command line  explore.endpoints.gpt.max_cost: expected a number > 0, got -1",
        ),
        (
            [GPT, AGAINST, "explore.endpoints.gpt.key_variable=sk-123"],
            "command line  explore.endpoints.gpt.key_variable: expected the name of an environment variable, in "
            "capitals, such as OPENAI_API_KEY; a key itself has no place in a config",
        ),
    ],
)
def test_a_value_that_may_not_stand_there_is_one_line(changes: list[str], line: str) -> None:
    with pytest.raises(ConfigError) as refused:
        make(*changes)
    assert refused.value.problems == (line,)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        (
            [GPT],
            "explore.endpoints.gpt: has no effect: it is never used; name it in league.opponents, evaluate.against or "
            "explore.judge.endpoint, or leave it out",
        ),
        (
            ["explore.endpoints={Gpt-4o: {model: m}}"],
            "explore.endpoints.Gpt-4o: is no player's name; write small letters, digits and _, at most 32, such as gpt",
        ),
        (
            ["explore.endpoints={random: {model: m}}", "evaluate.against=[random]"],
            "explore.endpoints.random: random is taken; write another name, such as gpt",
        ),
        (
            ["explore.endpoints={mcts-5: {model: m}}", "evaluate.against=[mcts-5]"],
            "explore.endpoints.mcts-5: mcts-5 is taken; write another name, such as gpt",
        ),
        (
            [GPT, AGAINST, "explore.endpoints.gpt.max_cost=3"],
            "explore.endpoints.gpt.max_cost: has no effect: nothing is charged; write prompt_price and "
            "completion_price, per million tokens",
        ),
        (
            [GPT, AGAINST, "explore.endpoints.gpt.options={stream: true}"],
            "explore.endpoints.gpt.options.stream: is no option: replies are read whole",
        ),
        (
            [GPT, "explore.judge={endpoint: gpt, rubric: r}", "explore.endpoints.gpt.prompt=boxed"],
            "explore.endpoints.gpt.prompt: has no effect: gpt only judges; leave it out",
        ),
        (
            [GPT, AGAINST, "explore.judge={endpoint: gtp, rubric: r}"],
            "explore.judge.endpoint: explore.endpoints has no gtp; did you mean gpt?",
        ),
        (
            ["explore.judge={endpoint: gpt, rubric: r}"],
            "explore.judge.endpoint: explore.endpoints has no gpt; write it there, with its model and url",
        ),
        (
            [GPT, "explore.judge={endpoint: gpt, rubric: r, lowest: 1}"],
            "explore.judge.lowest: 1 is not below explore.judge.highest (1); write less there",
        ),
        (
            [GPT, AGAINST, "warm_start={players: [random, gpt]}"],
            "warm_start.players.1: gpt is an endpoint, and what it says is not trained on; write players such as random",
        ),
    ],
)
def test_what_cannot_hold_is_one_line_that_says_what_to_write(changes: list[str], line: str) -> None:
    with pytest.raises(ConfigError) as refused:
        resolve(make(*changes))
    assert refused.value.problems == (line,)


def test_an_endpoint_may_not_have_the_policys_name() -> None:
    with pytest.raises(ConfigError, match=r"explore\.endpoints\.main: main is the policy that learns"):
        resolve(make("explore.endpoints={main: {model: m}}", "evaluate.against=[main]"))


def test_without_a_language_model_nobody_can_talk_to_an_endpoint() -> None:
    with pytest.raises(ConfigError) as refused:
        resolve(make(GPT, AGAINST, "policy={}", "explore.judge={endpoint: gpt, rubric: r}"))
    assert refused.value.problems == (
        "explore.endpoints: is for language models; give policy.model, or leave it out",
        "explore.judge: is for language models; give policy.model, or leave it out",
    )


def test_the_line_of_an_endpoint_is_found() -> None:
    text = "name: x\ngames: [open_spiel:tic_tac_toe]\npolicy: {model: {path: ludus/tiny}}\nexplore:\n  endpoints:\n"
    with pytest.raises(ConfigError, match=r"^run\.yaml:6  explore\.endpoints\.gpt: has no effect"):
        parse_resolved(text + "    gpt: {model: m}\n", "run.yaml")


def test_where_an_endpoint_is_and_what_it_may_cost_may_change_when_a_run_goes_on() -> None:
    price = "explore.endpoints.gpt.prompt_price=1"
    before = dump_config(resolve(make(GPT, AGAINST)))
    check_resumable(before, resolve(make(GPT, AGAINST, LOCAL, price, "explore.endpoints.gpt.max_cost=9")))
    check_resumable(before, resolve(make()))
    two = "explore.endpoints={gpt: {model: gpt-5-mini}, other: {model: m}}"
    check_resumable(before, resolve(make(two, "evaluate.against=[gpt, other]")))


def test_who_an_endpoint_is_may_not_change_when_a_run_goes_on() -> None:
    before = dump_config(resolve(make(GPT, AGAINST)))
    with pytest.raises(ConfigError) as refused:
        check_resumable(before, resolve(make(GPT, AGAINST, "explore.endpoints.gpt.model=another")))
    assert refused.value.problems == (
        'explore.endpoints.gpt.model: the run has "gpt-5-mini", now "another"; write it as before, or choose another '
        "--run-dir",
    )
    with pytest.raises(ConfigError, match=r"^explore\.judge: "):
        check_resumable(before, resolve(make(GPT, AGAINST, "explore.judge={endpoint: gpt, rubric: r}")))


def test_a_config_that_was_filled_in_keeps_its_key_variable() -> None:
    config = EndpointConfig(model="m")
    assert EndpointConfig.model_validate_json(config.model_dump_json()) == config
