"""Bounded, safe YAML with places."""

from __future__ import annotations

import pytest

from ludus.config.loading.yaml_text import MAX_BYTES, MAX_DEPTH, MAX_NODES, read_yaml
from ludus.config.problems import Place


def problems(text: str | bytes) -> list[str]:
    return [f"{found.place}  {found.sentence}" for found in read_yaml(text, "run.yaml").problems]


def test_every_value_keeps_its_line_and_column() -> None:
    document = read_yaml("a: 1\nb:\n  - x\n  - {c: 2}\n", "run.yaml")
    assert document.content == {"a": 1, "b": ["x", {"c": 2}]}
    places = {path: (place.line, place.column) for path, place in document.places.items()}
    assert places == {
        (): (1, 1),
        ("a",): (1, 1),
        ("b",): (2, 1),
        ("b", 0): (3, 5),
        ("b", 1): (4, 5),
        ("b", 1, "c"): (4, 6),
    }
    assert document.places["b", 1, "c"] == Place(source="run.yaml", line=4, column=6)


def test_quoted_text_and_blocks_stay_text() -> None:
    content = read_yaml("a: '12'\nb: \"true\"\nc: |\n  null\nd: 12\n", "x").content
    assert content == {"a": "12", "b": "true", "c": "null\n", "d": 12}


def test_keys_are_text_as_written() -> None:
    assert read_yaml("1: a\nno: b\nnull: c\n", "x").content == {"1": "a", "no": "b", "null": "c"}


def test_a_byte_order_mark_is_no_part_of_the_first_key() -> None:
    assert read_yaml(b"\xef\xbb\xbfname: x\n", "x").content == {"name": "x"}
    assert read_yaml("\ufeffname: x\n", "x").content == {"name": "x"}


@pytest.mark.parametrize("text", ["", "# only a comment\n", "---\n", "null\n"])
def test_an_empty_document_is_null(text: str) -> None:
    document = read_yaml(text, "x")
    assert (document.content, document.problems) == (None, [])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: 1\na: 2\n", "run.yaml:2  a: given twice (first on line 1)"),
        ("a: {b: 1, b: 2}\n", "run.yaml:1  a.b: given twice (first on line 1)"),
        ("a: &x 1\n", "run.yaml:1  a: anchor &x is not allowed; write the value out"),
        ("a: *x\n", "run.yaml:1  a: alias *x is not allowed; write the value out"),
        (
            "a: !!python/object/apply:os.system [id]\n",
            "run.yaml:1  a: tag !!python/object/apply:os.system is not allowed; a config holds plain values only",
        ),
        ("a: !!int '3'\n", "run.yaml:1  a: tag !!int is not allowed; a config holds plain values only"),
        ("a: !x y\n", "run.yaml:1  a: tag !x is not allowed; a config holds plain values only"),
        ("!!str a: 1\n", "run.yaml:1  tag !!str is not allowed; a config holds plain values only"),
        ("a: 1\n---\nb: 2\n", "run.yaml:2  a second document starts here; a config is one document"),
        ("a:\n\tb: 1\n", "run.yaml:2  a tab is used for indentation; use spaces"),
        ("a: 1\n \tb: 2\n", "run.yaml:2  a tab is used for indentation; use spaces"),
        (
            "a: b: c\n",
            "run.yaml:1  a key is not expected here; check the indentation, or put a value that holds ': ' in quotes",
        ),
        ("a: @x\n", "run.yaml:1  a value cannot start with @; put it in quotes"),
        ("? [a]\n: 1\n", "run.yaml:1  a key must be plain text"),
        ("a: 1\nb: \x00\n", "run.yaml:2  character \\x00 is not allowed"),
        ("a: 1\nb: x\x07\n", "run.yaml:2  character \\x07 is not allowed"),
        ("a: \ud800\n", "run.yaml:1  character \\ud800 is not allowed"),
        ('a: "x\\0y"\n', 'run.yaml:1  a: "x\\x00y" holds a control character'),
        ("a: " + "9" * 400 + "\n", "run.yaml:1  a: number 9999999999999999999… has too many digits"),
        (b"a: 1\nb: \xff\xfe\n", "run.yaml:2  not UTF-8 text (byte 0xff)"),
        ("a: 1\n".encode("utf-16"), "run.yaml:1  not UTF-8 text (byte 0xff)"),
        ("a: [1,\n", "run.yaml:2  not YAML: did not find expected node content (while parsing a flow node)"),
        ("a: 'x\n", "run.yaml:2  not YAML: found unexpected end of stream (while scanning a quoted scalar)"),
        (
            'a: "\\ud800"\n',
            "run.yaml:1  not YAML: found invalid Unicode character escape code (while parsing a quoted scalar)",
        ),
    ],
)
def test_a_mistake_in_the_yaml_is_one_line_with_its_place(text: str | bytes, problem: str) -> None:
    assert problems(text) == [problem]


def test_mistakes_that_do_not_confuse_the_rest_are_all_found() -> None:
    assert problems("a: &x 1\na: 2\nb: *x\nc: !!str 3\nd: [1\n") == [
        "run.yaml:1  a: anchor &x is not allowed; write the value out",
        "run.yaml:2  a: given twice (first on line 1)",
        "run.yaml:3  b: alias *x is not allowed; write the value out",
        "run.yaml:4  c: tag !!str is not allowed; a config holds plain values only",
        "run.yaml:6  not YAML: did not find expected ',' or ']' (while parsing a flow sequence)",
    ]


@pytest.mark.parametrize("bomb", ["[" * 100_000, "{a: " * 100_000, "- " * 100_000, "? " * 100_000])
def test_depth_is_bounded(bomb: str) -> None:
    found = problems(bomb)
    assert found == [f"run.yaml:1  nested more than {MAX_DEPTH} levels deep"] or "plain text" in found[0]


def test_the_number_of_values_is_bounded() -> None:
    assert problems("a: [" + "1," * (MAX_NODES + 1) + "]") == [
        f"run.yaml:1  more than {MAX_NODES:,} values; a config is smaller than that"
    ]


def test_the_size_is_bounded() -> None:
    assert problems("#" * (MAX_BYTES + 1)) == ["run.yaml  too large: a config has at most 1,000,000 bytes"]
    assert read_yaml("#" * MAX_BYTES, "x").problems == []
