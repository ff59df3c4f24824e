"""The conjugate that complex rules forget."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gradwright.check.case import Case
from gradwright.check.hypotheses.base import Candidate, Finding


def conjugated(case: Case) -> Iterator[Candidate]:
    """What the rule would give with its derivative conjugated: conj(rule(conj(upstream))), and conj(rule(upstream))."""
    got = case.got
    if got is None or not any(np.iscomplexobj(a) for a in (*case.upstreams, *case.point)):
        return
    if case.code.framework == "jax":
        said = f"the derivative by `{case.leaf.name}` is conjugated: JAX wants upstream * df/dz"
        repair = "return upstream * derivative"
    else:
        said = f"the derivative by `{case.leaf.name}` is not conjugated: the gradient must be conj(df/dz) * upstream"
        repair = f"return upstream * {case.code.conj('derivative')}"
    turned = case.pull([np.conj(u) for u in case.upstreams])[case.index]
    if turned is not None:
        yield Candidate(np.conj(turned), Finding("conjugate", said, repair))
    said = f"the gradient of `{case.leaf.name}` is conjugated once too often"
    yield Candidate(np.conj(got), Finding("conjugate", said, f"return {case.code.conj('g')}"))
