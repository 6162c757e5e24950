"""Event files are what TensorBoard's own message definitions read, whole after every line."""

import math
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tensorboardX.crc32c import crc32c as reference_crc32c
from tensorboardX.proto.event_pb2 import Event

from ludus.telemetry import TensorBoardSink
from ludus.telemetry.tensorboard import crc32c, scalars_record


def read_events(path: Path) -> Iterator[Any]:
    """As TensorBoard does: length, checksum, message, checksum."""
    data = path.read_bytes()
    while data:
        (length,) = struct.unpack("<Q", data[:8])
        message = data[12 : 12 + length]
        for checked, stored in ((data[:8], data[8:12]), (message, data[12 + length : 16 + length])):
            crc = reference_crc32c(checked)
            assert struct.unpack("<I", stored)[0] == ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
        yield Event.FromString(message)
        data = data[16 + length :]


def test_scalars_are_read_back_by_name_and_step(tmp_path: Path) -> None:
    sink = TensorBoardSink(tmp_path / "runs" / "tensorboard")
    sink.metrics(3_000_000_000, {"train/loss": 0.25, "bad": math.nan, "worse": math.inf, "huge": 1e300})
    sink.metrics(3_000_000_512, {"evaluate/random/score": 1.0})
    (path,) = (tmp_path / "runs" / "tensorboard").iterdir()
    assert path.name.startswith("events.out.tfevents.")
    first, *lines = read_events(path)
    sink.close()
    assert first.file_version == "brain.Event:2"
    scalars = [(line.step, {value.tag: value.simple_value for value in line.summary.value}) for line in lines]
    assert scalars == [(3_000_000_000, {"train/loss": 0.25}), (3_000_000_512, {"evaluate/random/score": 1.0})]


def test_nothing_is_made_before_there_is_a_line(tmp_path: Path) -> None:
    TensorBoardSink(tmp_path / "tensorboard").close()
    assert list(tmp_path.iterdir()) == []


@given(st.binary(max_size=300))
def test_checksums_are_those_of_an_independent_implementation(data: bytes) -> None:
    assert crc32c(data) == reference_crc32c(data)


@given(
    st.integers(-(2**63), 2**63 - 1),
    st.dictionaries(st.text(min_size=1, max_size=20), st.floats(width=32, allow_nan=False, allow_infinity=False)),
)
def test_records_are_what_the_message_definitions_say(step: int, values: dict[str, float]) -> None:
    record = scalars_record(1.5, step, values)
    event = Event.FromString(record[12:-4])
    assert (event.wall_time, event.step) == (1.5, step)
    assert {value.tag: value.simple_value for value in event.summary.value} == values
