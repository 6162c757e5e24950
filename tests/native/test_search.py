"""The batched PUCT search: the visits of a plain one in Python, mates found, games kept apart, seeds obeyed."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest
from numpy.typing import NDArray

chess = pytest.importorskip("chess")
pytest.importorskip("ludus_chess", reason="the native part of chess is not built")

from ludus_chess import Board, Search  # noqa: E402
from tests.native import oracle  # noqa: E402

Answer = tuple[NDArray[np.float32], NDArray[np.float32]]
Network = Callable[[NDArray[np.float32]], Answer]

CPUCT, BASE, FACTOR, FPU = 1.745, 38739.0, 3.894, 0.33
PROVEN_NOT = 2


def uniform_network(planes: NDArray[np.float32]) -> Answer:
    return np.zeros((len(planes), 1858), np.float32), np.tile(np.float32([0.3, 0.4, 0.3]), (len(planes), 1))


def make_network(seed: int) -> Network:
    """A fixed random linear network: its answer depends on the planes of a leaf alone, not on the batch."""
    rng = np.random.default_rng(seed)
    policy = rng.normal(0, 0.05, (64 * 13, 1858)).astype(np.float32)
    value = rng.normal(0, 0.2, (64 * 13, 3)).astype(np.float32)

    def answer(planes: NDArray[np.float32]) -> Answer:
        logits, wdl = [], []
        for plane in planes:
            x = plane[:13].reshape(-1)
            logits.append(x @ policy)
            e = np.exp(x @ value)
            wdl.append(e / e.sum())
        return np.array(logits, np.float32).reshape(-1, 1858), np.array(wdl, np.float32).reshape(-1, 3)

    return answer


def run(search: Search, network: Network, *, visits: int, batch: int = 1, leaves_per_tree: int = 16) -> None:
    while len(planes := search.collect(batch, visits=visits, leaves_per_tree=leaves_per_tree)):
        search.apply(*network(planes))


@dataclass
class Node:
    """A plain tree: values for the side to move."""

    board: chess.Board
    parent: "Node | None" = None
    n: int = 0
    flying: int = 0
    w: float = 0.0
    proven: int = PROVEN_NOT
    is_evaluated: bool = False
    edges: list[tuple[int, chess.Move, float]] = field(default_factory=list)
    children: dict[int, "Node"] = field(default_factory=dict)


def terminal_value(board: chess.Board) -> int | None:
    if board.is_checkmate():
        return -1
    over = board.is_stalemate() or board.is_insufficient_material() or board.halfmove_clock >= 100
    return 0 if over or board.is_repetition(3) else None


class PlainSearch:
    def __init__(self, board: chess.Board) -> None:
        self.root = Node(board.copy())

    def select(self, node: Node) -> int:
        total = sum(c.n + c.flying for c in node.children.values())
        seen = sum(
            p for i, _, p in node.edges if i in node.children and node.children[i].n + node.children[i].flying > 0
        )
        fpu = (node.w / node.n if node.n else 0.0) - FPU * math.sqrt(seen)
        explore = (CPUCT + FACTOR * math.log((total + BASE) / BASE)) * math.sqrt(max(total, 1))
        losing = {i for i, c in node.children.items() if c.proven == 1}
        best, best_score = -1, -math.inf
        for index, _, prior in node.edges:
            if index in losing and len(losing) < len(node.edges):
                continue
            child = node.children.get(index)
            n = child.n + child.flying if child else 0
            q = fpu
            if child and child.proven != PROVEN_NOT:
                q = -child.proven
            elif child and n:
                q = (-child.w - child.flying) / n
            if (score := q + explore * prior / (1 + n)) > best_score:
                best, best_score = index, score
        return best

    def prove(self, node: Node | None) -> None:
        while node is not None and node.proven == PROVEN_NOT:
            known = [node.children[i].proven if i in node.children else PROVEN_NOT for i, _, _ in node.edges]
            if -1 in known:
                node.proven = 1
            elif PROVEN_NOT in known:
                return
            else:
                node.proven = 0 if 0 in known else -1
            node = node.parent

    def back_up(self, node: Node | None, value: float, landed: bool) -> None:
        while node is not None:
            node.n += 1
            node.flying -= landed
            node.w += value
            value = -value
            node = node.parent

    def descend(self) -> Node | bool:
        """A leaf to evaluate, True for a visit without one, False for a collision."""
        node = self.root
        while True:
            if node is not self.root and node.proven != PROVEN_NOT:
                self.back_up(node, node.proven, landed=False)
                return True
            if not node.is_evaluated:
                if node.flying:
                    return False
                up: Node | None = node
                while up is not None:
                    up.flying += 1
                    up = up.parent
                return node
            index = self.select(node)
            if index not in node.children:
                board = node.board.copy()
                board.push(next(m for i, m, _ in node.edges if i == index))
                child = Node(board, node)
                node.children[index] = child
                if (value := terminal_value(board)) is not None:
                    child.proven = value
                    self.prove(node)
            node = node.children[index]

    def evaluate(self, leaf: Node, logits: NDArray[np.float32], wdl: NDArray[np.float32]) -> None:
        moves = sorted((oracle.policy_index(leaf.board, m), m) for m in leaf.board.legal_moves)
        raw = [float(logits[i]) for i, _ in moves]
        weights = [math.exp(x - max(raw)) for x in raw]
        leaf.edges = [(i, m, float(np.float32(w / sum(weights)))) for (i, m), w in zip(moves, weights, strict=True)]
        leaf.is_evaluated = True
        self.back_up(leaf, float(wdl[0]) - float(wdl[2]), landed=True)

    def run(self, network: Network, *, visits: int, batch: int) -> None:
        while True:
            leaves: list[Node] = []
            while len(leaves) < batch and self.root.n + self.root.flying < visits:
                found = self.descend()
                if found is False:
                    break
                if isinstance(found, Node):
                    leaves.append(found)
            if not leaves:
                return
            for leaf in leaves:
                logits, wdl = network(oracle.encode(history(leaf.board))[0][None])
                self.evaluate(leaf, logits[0], wdl[0])


def history(board: chess.Board) -> list[chess.Board]:
    back = board.copy()
    boards = [back.copy(stack=False)]
    while back.move_stack:
        back.pop()
        boards.append(back.copy(stack=False))
    return boards[::-1]


POSITIONS = [
    chess.STARTING_FEN,
    "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1",
    "8/8/8/8/8/4k3/4p3/4K3 b - - 0 1",
    "k7/8/1K6/8/8/8/8/6Q1 w - - 97 90",
    "6k1/5ppp/8/8/8/8/5PPP/3R2K1 b - - 0 1",
]


@pytest.mark.parametrize("fen", POSITIONS)
@pytest.mark.parametrize("batch", [1, 6])
def test_visits_equal_a_plain_search(fen: str, batch: int) -> None:
    network = make_network(11)
    search = Search([Board(fen)])
    run(search, network, visits=60, batch=batch)
    plain = PlainSearch(chess.Board(fen))
    plain.run(network, visits=60, batch=batch)
    stats = search.root(0)
    assert stats.root_visits == plain.root.n
    expected = {i: plain.root.children[i].n if i in plain.root.children else 0 for i, _, _ in plain.root.edges}
    assert dict(zip(stats.indices.tolist(), stats.visits.tolist(), strict=True)) == expected
    assert stats.root[0] == pytest.approx(plain.root.w / plain.root.n, abs=1e-5)
    assert stats.root_proven == plain.root.proven


@pytest.mark.parametrize(
    ("fen", "visits", "first"),
    [
        ("6k1/5ppp/8/8/8/8/5PPP/3R2K1 w - - 0 1", 200, "d1d8"),
        ("r1bqkb1r/pppp1ppp/2n2n2/4p2Q/2B1P3/8/PPPP1PPP/RNB1K1NR w KQkq - 4 4", 400, "h5f7"),
        ("7k/8/5K2/8/8/8/8/6R1 w - - 0 1", 3000, "f6f7"),  # mate in two
        ("2bqkbn1/2pppp2/np2N3/r3P1p1/p2N2B1/5Q2/PPPPKPP1/RNB2r2 w - - 0 1", 20000, "f3f7"),  # mate in two
    ],
)
def test_a_uniform_network_finds_mates(fen: str, visits: int, first: str) -> None:
    search = Search([Board(fen)])
    run(search, uniform_network, visits=visits, batch=16)
    stats = search.root(0)
    assert search.board(0).move_of(int(stats.indices[stats.best])) == first
    assert stats.proven[stats.best] == 1
    assert stats.q[stats.best] == 1
    assert stats.root_proven == 1
    assert stats.m[stats.best] >= 1
    assert search.principal_variation(0)[0] == first


def test_a_mate_in_one_is_one_ply_away_as_in_the_engines_records() -> None:
    search = Search([Board("6k1/5ppp/8/8/8/8/5PPP/3R2K1 w - - 0 1")])
    run(search, uniform_network, visits=100)
    stats = search.root(0)
    assert (stats.q[stats.best], stats.d[stats.best], stats.m[stats.best]) == (1, 0, 1)


def test_a_lost_root_is_proven_and_still_searched() -> None:
    search = Search([Board("7k/5K2/8/8/8/8/8/6R1 b - - 1 1")])  # the only move is mated
    run(search, uniform_network, visits=120)
    stats = search.root(0)
    assert (stats.root_proven, stats.root_visits) == (-1, 120)
    assert stats.proven.tolist() == [-1]
    assert stats.q.tolist() == [-1]


def test_a_game_that_is_over_gives_no_leaf() -> None:
    search = Search([Board("7k/5K2/8/8/8/8/8/7R b - - 1 1"), Board()])
    assert search.is_over(0)
    assert search.collect(8, visits=1).shape == (1, 112, 8, 8)
    assert Search([]).collect(8, visits=1).shape == (0, 112, 8, 8)


def test_many_games_at_once_search_as_each_alone() -> None:
    network = make_network(5)
    together = Search([Board(fen) for fen in POSITIONS])
    run(together, network, visits=40, batch=7, leaves_per_tree=1)
    for number, fen in enumerate(POSITIONS):
        alone = Search([Board(fen)])
        run(alone, network, visits=40)
        assert together.root(number).visits.tolist() == alone.root(0).visits.tolist()
        np.testing.assert_array_equal(together.root(number).q, alone.root(0).q)


def test_a_subtree_is_kept_after_a_move() -> None:
    network = make_network(3)
    search = Search([Board()])
    run(search, network, visits=100)
    before = search.root(0)
    best = before.best
    kept = int(before.visits[best])
    search.push_index(0, int(before.indices[best]))
    after = search.root(0)
    assert after.root_visits == kept > 1
    assert after.root[0] == pytest.approx(-before.q[best])
    run(search, network, visits=kept + 20)
    assert search.root(0).root_visits == kept + 20
    assert search.root(0).visits.sum() == kept + 19
    # A move that the search never looked at begins a tree anew.
    search = Search([Board()])
    search.push(0, "a2a3")
    assert search.root(0).root_visits == 0
    assert search.board(0).fen().startswith("rnbqkbnr/pppppppp/8/8/8/P7")


def test_noise_obeys_the_seed_and_reaches_the_root_alone() -> None:
    def visits(seed: int, epsilon: float) -> list[int]:
        search = Search([Board(), Board()], noise_epsilon=epsilon, seed=seed)
        run(search, uniform_network, visits=80, batch=8)
        assert np.allclose(search.root(0).priors, 1 / 20)
        return [*search.root(0).visits.tolist(), *search.root(1).visits.tolist()]

    assert visits(1, 0.25) == visits(1, 0.25)
    assert visits(1, 0.25) != visits(2, 0.25)
    first = visits(1, 0.5)
    assert first[:20] != first[20:]
    still = visits(1, 0.0)
    assert still[:20] == still[20:]


def test_temperature_flattens_the_policy() -> None:
    network = make_network(9)
    entropies = []
    for temperature in (0.5, 1.0, 4.0):
        search = Search([Board()], policy_temperature=temperature)
        run(search, network, visits=1)
        p = search.root(0).priors.astype(np.float64)
        assert p.sum() == pytest.approx(1, abs=1e-5)
        entropies.append(-(p * np.log(p)).sum())
    assert entropies == sorted(entropies)


def test_moves_left_counts_plies_from_the_root() -> None:
    search = Search([Board()])
    while len(planes := search.collect(1, visits=2)):
        logits, wdl = uniform_network(planes)
        search.apply(logits, wdl, np.full(len(planes), 30, np.float32))
    stats = search.root(0)
    visited = int(np.argmax(stats.visits))
    assert stats.m[visited] == 31
    assert stats.root[2] == pytest.approx((30 + 31) / 2)
    assert stats.raw == pytest.approx((0.0, 0.4, 30.0))
    assert np.isnan(stats.m[visited - 1])


@pytest.mark.parametrize("input_format", oracle.FORMATS)
def test_a_transformed_leaf_reads_its_policy_in_its_own_frame(input_format: int) -> None:
    fen = "8/8/2k5/8/8/1R6/2K5/8 w - - 3 20"
    board = chess.Board(fen)
    _, transform = oracle.encode([board], input_format)
    assert (transform != 0) == (input_format >= 3)
    search = Search([Board(fen)], input_format=input_format)
    planes = search.collect(1, visits=1)
    np.testing.assert_array_equal(planes[0], oracle.encode([board], input_format)[0])
    wanted = chess.Move.from_uci("b3b7")
    logits = np.zeros((1, 1858), np.float32)
    logits[0, oracle.policy_index(board, wanted, transform)] = 9
    search.apply(logits, np.zeros((1, 2), np.float32))
    stats = search.root(0)
    assert search.board(0).move_of(int(stats.indices[np.argmax(stats.priors)])) == "b3b7"


def test_wrong_answers_are_refused_and_change_nothing() -> None:
    search = Search([Board()])
    planes = search.collect(4, visits=10)
    logits, wdl = uniform_network(planes)
    for bad in (logits[:, :5], np.zeros((2, 1858), np.float32)):
        with pytest.raises(ValueError, match="logits must"):
            search.apply(bad, wdl)
    with pytest.raises(ValueError, match="values must"):
        search.apply(logits, np.zeros((1, 4), np.float32))
    with pytest.raises(ValueError, match="moves_left"):
        search.apply(logits, wdl, np.zeros(3, np.float32))
    with pytest.raises(ValueError, match="not finite"):
        search.apply(np.full_like(logits, np.nan), wdl)
    with pytest.raises(ValueError, match="not finite"):
        search.apply(logits, np.full_like(wdl, np.nan))
    with pytest.raises(ValueError, match="wait for apply"):
        search.collect(4, visits=10)
    with pytest.raises(ValueError, match="wait for apply"):
        search.push(0, "e2e4")
    search.apply(np.full_like(logits, -np.inf), wdl)
    assert np.allclose(search.root(0).priors, 1 / 20)
    with pytest.raises(IndexError):
        search.root(1)
    with pytest.raises(ValueError, match="cpuct"):
        Search([Board()], cpuct=float("nan"))
    with pytest.raises(ValueError, match="input_format"):
        Search([Board()], input_format=7)
