"""The contract under a plan: `python tests/planned.py` holds every case to it, CI some (`test_plan.py`)."""

import argparse
import sys
import traceback
from typing import Any

import contract
import jax
import jax.numpy as jnp
import numpy as np
from contract import Case

import maskax as mx

PLANS = {
    "steps": mx.Plan(tokens_per_trip=8),
    "single rows": mx.Plan(buckets=mx.Buckets([1, 3]), tokens_per_trip=1),
    "one bucket": mx.Plan(buckets=mx.Buckets([5]), tokens_per_trip=100, prefixes=2),
}


def hold(case: Case, dtype: str, plan: mx.Plan) -> None:
    """Holds `case` to the contract, rows of all sizes together under `plan`, with nan in the padding."""
    with contract.precision(dtype):
        _hold(case, dtype, plan)


def _hold(case: Case, dtype: str, plan: mx.Plan) -> None:
    operands, args = case.operands, contract.make(case, dtype)
    specs = [a.spec for a in operands]
    floats = [i for i, (a, x) in enumerate(zip(operands, args)) if a.differentiable and contract._is_float(x)]
    active = floats if case.grad else []
    table = contract.size_table(case)
    rows = len(table)
    sizes = {n: jnp.asarray([row[n] for row in table], jnp.int32) for n in case.names}
    batch = [contract._stack([contract.poison(x, s, row, "nan") for row in table]) for x, s in zip(args, specs)]
    mapped = mx.vmap(contract._weighted(case.fun, active), constraints=case.constraints, plan=plan)

    def function(weights: Any, *values: Any) -> Any:
        results = mapped(weights, *[as_batch(x, spec, sizes) for x, spec in zip(values, specs)])
        leaves = jax.tree.leaves(results, is_leaf=lambda x: isinstance(x, mx.Ragged))
        return [x.data if isinstance(x, mx.Ragged) else x for x in leaves], [Shape(x, rows) for x in leaves]

    sample = jax.eval_shape(lambda *values: function(contract.weights_of((rows,)), *values)[0], *batch)
    cts = contract._cotangents([jax.ShapeDtypeStruct(x.shape[1:], x.dtype) for x in sample])
    active = active if any(map(contract._is_float, sample)) else []
    everything = jax.jit(lambda batch: contract._everything(case, function, batch, active, cts, (rows,)))
    results = jax.tree.map(np.asarray, everything(batch))
    of_rows = [jax.tree.map(lambda x, i=i: x[i], results) for i in range(rows)]
    wanted = contract._wanted(case, args, table, cts, of_rows, active)
    for row, of_row, want in zip(table, of_rows, wanted):
        context = f"{case.name} [{dtype}] at {row} under {plan}"
        contract._compare(case, dtype, context, args, row, of_row, active, want)


class Shape:
    """The true shapes of the rows of a result."""

    def __init__(self, result: Any, rows: int) -> None:
        if isinstance(result, mx.Ragged):
            padded = result.data.shape[1:]
            dims = [padded[axis] if dim == "_" else result._true(axis) for axis, dim in enumerate(result.dims)]
        else:
            dims = result.shape[1:]
        self.shape = tuple(jnp.broadcast_to(dim, (rows,)) for dim in dims)


def as_batch(data: Any, spec: str, sizes: dict[str, Any]) -> Any:
    """Rows of a shape string as `Ragged`, if anything in it is ragged."""
    dims = tuple(part.strip() for part in spec.strip().strip("()").split(",") if part.strip())
    names = [name for name in sizes if any(name in dim for dim in dims)]
    dims = tuple(dim if any(name in dim for name in names) else "_" for dim in dims)
    return mx.Ragged(data, {name: sizes[name] for name in names}, dims) if names else data


def main() -> None:
    from cases import CASES

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plan", choices=PLANS, default="steps")
    parser.add_argument("--part", default="0/1", help="i/k: every k-th case, beginning at the i-th")
    options = parser.parse_args()
    first, step = map(int, options.part.split("/"))
    failed = 0
    for case in CASES[first::step]:
        try:
            hold(case, case.dtypes[0], PLANS[options.plan])
        except Exception as error:
            failed += 1
            print(f"--- {case.name}: {type(error).__name__}: {str(error).strip()[:600]}", flush=True)
            traceback.print_exc(limit=-3, file=sys.stderr)
    print(f"{len(CASES[first::step])} cases, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    import conftest  # noqa: F401  (flags)

    main()
