"""The benchmark of ragged batches compares what it times: every contestant gives the plain function's results."""

import dataclasses
import importlib
import pathlib

import pytest

import maskax as mx

ROOT = pathlib.Path(__file__).parent.parent


@pytest.fixture
def ragged(monkeypatch):
    monkeypatch.syspath_prepend(ROOT)
    return importlib.import_module("benchmarks.ragged.contest")


def test_contestants_agree_with_the_plain_function(ragged):
    programs = importlib.import_module("benchmarks.ragged.programs").programs()
    sets = next(program for program in programs if program.name == "sets")
    program = dataclasses.replace(sets, rows=6, batch=3, size=9)
    rows = ragged.data.make(program, "uniform")
    *entrants, alone = ragged.hold(program, rows, mx.Buckets([4, 9]), [], rounds=0, measured=2)
    assert all(outcome.error < 1e-5 for outcome in entrants), entrants
    compilations = {outcome.name: outcome.compilations for outcome in entrants}
    assert compilations == {  # forward and gradient, in each bucket
        "maskax": 2,
        "hand-written masks": 2,
        "maskax, buckets": 4,
        "hand-written masks, buckets": 4,
        "maskax, plan": 2,
        "maskax, value_and_grad": 1,  # forward is shared
    }
    assert alone.compilations == 2 * len(set(rows.lengths.tolist()))


def test_a_wrong_contestant_is_seen(ragged):
    contestants, programs = ragged.contestants, importlib.import_module("benchmarks.ragged.programs").programs()
    program = dataclasses.replace(programs[3], rows=2, batch=2, size=4)
    rows = ragged.data.make(program, "uniform")
    right = contestants.per_length(program, rows, ragged.data.some_lengths(rows, 2)).results(rows)
    wrong = ({row: value * 1.01 for row, value in right[0].items()}, right[1])
    assert ragged.error(right, right) == 0
    assert ragged.error(wrong, right) > ragged.WRONG
