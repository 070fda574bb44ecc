"""The contract, over every case and dtype; and that every registered rule is met by some case."""

import jax
import jax.numpy as jnp
import pytest
from cases import CASES
from contract import check, make, precision

import maskax as mx
from maskax._rules.refuse import REFUSED


@pytest.mark.parametrize(("case", "dtype"), [pytest.param(c, d, id=f"{c.name}-{d}") for c in CASES for d in c.dtypes])
def test_masked_equals_plain(case, dtype):
    check(case, dtype)


def test_case_names_are_unique():
    names = [case.name for case in CASES]
    assert len(names) == len(set(names))


# Spellings that other JAX versions use, and rules that a program reaches only there.
_OTHER_VERSIONS = {"pjit", "core_call", "closed_call", "remat", "checkpoint", "remat2", "call_hi_primitive"}
_OTHER_VERSIONS |= {"log2", "one_minus_square", "polynomial", "pvary", "empty"}
_OTHER_VERSIONS |= {
    "acospi",
    "asinpi",
    "atan2pi",
    "atanpi",
    "cospi",
    "exp2m1",
    "fma",
    "fmuladd",
    "log2p1",
    "sinpi",
    "tanpi",
}
_OTHER_VERSIONS |= {"random_gamma_grad", "random_poisson"}
_OTHER_VERSIONS |= {"call", "relayout", "shard_alike", "xla_metadata_call"}
_RARE = {"dce_sink", "eval_jaxpr", "inspect_sharding", "remat_opt", "stage", "threefry2x32", "xla_metadata_value"}
"""See `test_primitives.py`."""
_NO_PLAIN_PROGRAM = {"dynamic_size"}
"""Under `jit` the plain function has no such sizes: see `test_dynamic.py`."""


def test_every_rule_has_a_case(monkeypatch):
    met = set()

    def recorded(name, function):
        def rule(*args, **params):
            met.add(name)
            return function(*args, **params)

        return rule

    from maskax._interpret import RULES

    own = {n for n, f in RULES.items() if getattr(f, "func", f).__module__.startswith("maskax._rules.")}  # not a test's
    for name, function in mx.rules().items():
        monkeypatch.setitem(RULES, name, recorded(name, function))
    for case in CASES:
        with precision(case.dtypes[0]):
            args = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in make(case, case.dtypes[0])]
            masked = mx.mask(case.fun, [a.spec for a in case.operands], constraints=case.constraints)
            sizes = dict.fromkeys(case.names, jnp.int32(1))
            jax.eval_shape(lambda args, m=masked, s=sizes: m(args, s)[0], args)
    missing = own - met - _OTHER_VERSIONS - _RARE - _NO_PLAIN_PROGRAM - REFUSED.keys()
    assert not missing, f"rules without a case: {sorted(missing)}"
