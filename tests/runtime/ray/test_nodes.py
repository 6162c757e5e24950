"""Which worker goes to which node, and the sentences about what fits nowhere: all of it without a cluster."""

import pytest

from ludus.runtime.needs import Needs, Wanted
from ludus.runtime.ray.nodes import NodeRoom, count_room, left_over, node_rooms, plan_places, refusal


def node(name: str, *, labels: dict[str, str] | None = None, **amounts: float) -> NodeRoom:
    return NodeRoom(id=name, name=name, total=dict(amounts), free=dict(amounts), labels=labels or {})


def wanted(*names: str, **needs: float) -> list[Wanted]:
    return [Wanted(name=name, needs=Needs(**needs)) for name in names]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("selector", "value", "matches"),
    [
        ("a", "a", True),
        ("a", "b", False),
        ("a", None, False),
        ("!a", "a", False),
        ("!a", None, True),
        ("in(a, b)", "b", True),
        ("in(a,b)", "c", False),
        ("!in(a, b)", "c", True),
        ("!in(a, b)", "b", False),
    ],
)
def test_labels_match_as_ray_matches_them(selector: str, value: str | None, matches: bool) -> None:
    labels = {} if value is None else {"zone": value}
    assert Needs(labels={"zone": selector}).matches(labels) is matches


def test_large_workers_are_placed_first_and_the_others_are_spread() -> None:
    workers = [*wanted("explorer-0", "explorer-1", "explorer-2", cpus=1), *wanted("trainer", cpus=3)]

    places, lacking = plan_places(workers, [node("a", CPU=2), node("b", CPU=3), node("c", CPU=2)])

    assert lacking == []
    assert places["trainer"] == "b"
    assert sorted(places[f"explorer-{number}"] for number in range(3)) in (["a", "a", "c"], ["a", "c", "c"])


def test_workers_that_fit_only_when_packed_are_packed() -> None:
    workers = [*wanted("large", cpus=4), *wanted("x", "y", cpus=3), *wanted("z", cpus=1)]
    places, lacking = plan_places(workers, [node("a", CPU=4), node("b", CPU=3), node("c", CPU=4)])
    assert lacking == []
    assert places["large"] in "ac"


def test_workers_that_run_beside_others_go_to_their_nodes_alone() -> None:
    beside = [Wanted(name=f"explorer-{number}", needs=Needs(cpus=1, beside="engine")) for number in range(3)]
    servers = [Wanted(name=f"engine-{number}", needs=Needs(cpus=1, gpus=1)) for number in range(2)]
    nodes = [node("plenty", CPU=16), node("a", CPU=2, GPU=1), node("b", CPU=3, GPU=1)]

    places, lacking = plan_places([*beside, *servers], nodes)

    assert lacking == []
    assert {places["engine-0"], places["engine-1"]} == {"a", "b"}
    assert sorted(places[worker.name] for worker in beside) == ["a", "b", "b"]
    assert refusal([*beside, beside[0], *servers], nodes).startswith(
        "explorer-0 would find no room beside the others, needing 1 CPU and a node with engine each"
    )


def test_workers_of_a_group_are_packed_and_the_others_spread() -> None:
    ranks = [Wanted(name=f"rank-{number}", needs=Needs(cpus=1, gpus=1, group="rank")) for number in range(3)]
    nodes = [node("a", CPU=4, GPU=2), node("b", CPU=4, GPU=2), node("c", CPU=4)]
    places, lacking = plan_places([*ranks, *wanted("explorer-0", "explorer-1", cpus=1)], nodes)
    assert lacking == []
    assert sorted(places[worker.name] for worker in ranks) in (["a", "a", "b"], ["a", "b", "b"])
    assert places["explorer-0"] == "c"


def test_what_no_node_has_is_named_with_what_nodes_have() -> None:
    workers = [Wanted(name="trainer", needs=Needs(cpus=1, gpus=1, labels={"zone": "a"}))]
    nodes = [node("10.0.0.1", CPU=2, labels={"zone": "a"}), node("10.0.0.2", CPU=4, GPU=1, labels={"zone": "b"})]
    assert refusal(workers, nodes) == (
        "trainer needs 1 CPU, 1 GPU and label zone=a, and no node has that: "
        "10.0.0.1 has 2 CPU, zone=a; 10.0.0.2 has 4 CPU, 1 GPU, zone=b"
    )


def test_workers_that_fit_alone_but_not_together_are_named() -> None:
    workers = wanted("trainer", "explorer-0", "explorer-1", cpus=2)
    said = refusal(workers, [node("a", CPU=3), node("b", CPU=2)])
    assert said.startswith("explorer-1 would find no room beside the others, needing 2 CPU each: the 3 workers")
    assert refusal(workers, [node("a", CPU=3), node("b", CPU=4)]) == ""


def test_busy_nodes_refuse_nobody() -> None:
    busy = NodeRoom(id="a", name="a", total={"CPU": 2.0}, free={})
    assert refusal(wanted("explorer-0", cpus=1), [busy]) == ""


def test_room_for_further_workers_is_what_is_free() -> None:
    nodes = [node("a", CPU=2.5), node("b", CPU=1, labels={"zone": "x"})]
    assert count_room(Needs(cpus=1), nodes, 9) == 3
    assert count_room(Needs(cpus=1), nodes, 2) == 2
    assert count_room(Needs(cpus=1, labels={"zone": "x"}), nodes, 9) == 1


def test_what_is_left_is_free_beside_the_placed_workers() -> None:
    workers, nodes = wanted("x", "y", cpus=1), [node("a", CPU=2), node("b", CPU=1)]
    places, _ = plan_places(workers, nodes)
    assert count_room(Needs(cpus=1), left_over(workers, places, nodes), 9) == 1


def test_nodes_that_share_an_address_have_names_of_their_own() -> None:
    table = [
        {"NodeID": id * 8, "NodeName": name, "Alive": alive, "Resources": {"CPU": 1.0, "memory": 9.0, "node:x": 1.0}}
        for id, name, alive in (("a", "n", True), ("b", "n", True), ("c", "m", True), ("d", "m", False))
    ]
    rooms = node_rooms(table, {"a" * 8: {"CPU": 0.5}})
    assert [(each.name, each.total, each.free) for each in rooms] == [
        ("n#aaaaaa", {"CPU": 1.0}, {"CPU": 0.5}),
        ("n#bbbbbb", {"CPU": 1.0}, {}),
        ("m", {"CPU": 1.0}, {}),
    ]
