"""Random programs held to the contract for as long as one likes: `python tests/properties.py --minutes 30`."""

import argparse
import functools
import itertools
import time
from collections import Counter
from collections.abc import Mapping, Sequence

import conftest  # noqa: F401  (sets the compiler's flags)
from contract import PADDED, check
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from programs import MET, Program, programs
from templates import TEMPLATES

import maskax as mx

OUTCOMES: Counter[str] = Counter()
"""How often programs held, and why others were refused."""

_WIDER = {"float32": "float64", "bfloat16": "float64", "complex64": "complex128"}


@st.composite
def trials(draw):
    """A program with the sizes to run it at."""
    program = draw(programs())
    names = [name for name in PADDED if any(name in spec for spec, _ in program.args)]
    table = [{name: draw(st.integers(max(1, program.least), PADDED[name])) for name in names}]
    if not program.least:
        table.append(dict.fromkeys(names, 0))
    return program, tuple(tuple(sizes.items()) for sizes in table)


@functools.cache
def hold(program: Program, table: Sequence[Sequence[tuple[str, int]]]) -> None:
    """Fails where the masked program is not the plain one.

    What comes of rounding alone, as where a comparison falls on the other side, is gone at twice the precision.
    """
    sizes = [dict(row) for row in table]
    try:
        _check(program, sizes)
    except mx.MaskaxError as refused:
        OUTCOMES[f"refused: {str(refused)[:90]}"] += 1
    except AssertionError as fault:
        dtype = program.args[0][1]
        if "in the padding shows" in str(fault) or dtype not in _WIDER:
            raise
        _check(program.at(_WIDER[dtype]), sizes)
        OUTCOMES["rounding"] += 1
    else:
        OUTCOMES["held"] += 1


def _check(program: Program, table: Sequence[Mapping[str, int]]) -> None:
    # Results of a wide program are held to 1e-8. Forward mode as well costs a third: every other program has it.
    dtype = program.args[0][1]
    tolerance = 1000 if dtype in ("float64", "complex128") else 50
    forward = len(program.lines) % 2 == 1
    case = program.case(zero="defined", tolerance=tolerance, grad=program.smooth, forward=forward)
    check(case, dtype, table, eager=False)


def run(number: int, examples: int) -> None:
    """Raises at the first fault among random programs, shrunk."""

    @seed(number)
    @settings(
        max_examples=examples,
        database=None,
        deadline=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
        print_blob=False,
    )
    @given(trials())
    def property(trial):
        hold(*trial)

    property()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    options = parser.parse_args()
    start, faults = time.monotonic(), 0
    for number in itertools.count(options.seed):
        try:
            run(number, 100)
        except Exception as fault:
            faults += 1
            print(f"--- seed {number}: {type(fault).__name__}: {fault}", *getattr(fault, "__notes__", ()), sep="\n")
        if time.monotonic() - start > 60 * options.minutes:
            break
    print(*(f"{count:6} {outcome}" for outcome, count in OUTCOMES.most_common()), sep="\n")
    unmet = {template for templates in TEMPLATES.values() for template in templates} - MET.keys()
    print(*(f"never met: {template}" for template in sorted(unmet)), sep="\n")
    print(f"{faults} faults, seeds {options.seed} to {number}")
    raise SystemExit(bool(faults))


if __name__ == "__main__":
    main()
