"""Which of TensorFlow's ops draw random numbers or change a variable."""

from __future__ import annotations

from typing import Any

try:
    from tensorflow.python.eager import context
except ImportError:  # pragma: no cover - another TensorFlow
    context = None  # type: ignore[assignment]

# op type: the function that makes it, in the modules of generated functions
FUNCTIONS = {
    "RandomUniform": "random_uniform",
    "RandomUniformInt": "random_uniform_int",
    "RandomStandardNormal": "random_standard_normal",
    "ParameterizedTruncatedNormal": "parameterized_truncated_normal",
    "TruncatedNormal": "truncated_normal",
    "RandomShuffle": "random_shuffle",
    "Multinomial": "multinomial",
    "RandomGamma": "random_gamma",
    "RandomPoisson": "random_poisson",
    "RandomPoissonV2": "random_poisson_v2",
    "NonDeterministicInts": "non_deterministic_ints",
    "RngReadAndSkip": "rng_read_and_skip",
    "RngSkip": "rng_skip",
    "StatefulRandomBinomial": "stateful_random_binomial",
    "StatefulStandardNormal": "stateful_standard_normal",
    "StatefulStandardNormalV2": "stateful_standard_normal_v2",
    "StatefulTruncatedNormal": "stateful_truncated_normal",
    "StatefulUniform": "stateful_uniform",
    "StatefulUniformFullInt": "stateful_uniform_full_int",
    "StatefulUniformInt": "stateful_uniform_int",
    "AllCandidateSampler": "all_candidate_sampler",
    "FixedUnigramCandidateSampler": "fixed_unigram_candidate_sampler",
    "LearnedUnigramCandidateSampler": "learned_unigram_candidate_sampler",
    "LogUniformCandidateSampler": "log_uniform_candidate_sampler",
    "UniformCandidateSampler": "uniform_candidate_sampler",
    "PyFunc": "py_func",
}
ASSIGNS = frozenset(("AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp"))
CALLS = frozenset(
    ("PartitionedCall", "StatefulPartitionedCall", "While", "StatelessWhile", "If", "StatelessIf", "Case")
)
_BODIES = ("f", "body", "cond", "then_branch", "else_branch")


def functions_of(module: Any) -> list[str]:
    """The functions of a module of generated ops that draw."""
    return [name for name in FUNCTIONS.values() if hasattr(module, name)]


def draws(op_type: str) -> bool:
    """Whether an eager op draws numbers or changes a variable; a traced function runs under its own name."""
    return op_type in FUNCTIONS or op_type in ASSIGNS or (op_type.startswith("__") and _draws_inside(op_type, set()))


def draws_in(op: Any) -> bool:
    """Whether an op of a graph calls a function that draws numbers or changes a variable."""
    if op.type not in CALLS:
        return False
    named = [op.get_attr(key) for key in _BODIES if key in op.node_def.attr]
    return any(_draws_inside(_text(getattr(f, "name", f)), set()) for f in named)


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _draws_inside(name: str, seen: set[str]) -> bool:
    found = context.context()
    if name in seen or not found.has_function(name):
        return False
    seen.add(name)
    nodes = found.get_function_def(name).node_def
    if any(node.op in FUNCTIONS or node.op in ASSIGNS for node in nodes):
        return True
    inner = {attr.func.name for node in nodes for attr in node.attr.values() if attr.func.name}
    return any(_draws_inside(n, seen) for n in inner)
