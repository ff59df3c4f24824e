"""Finding rules, guessing inputs, meeting rules in a run: each against small modules with known contents."""

import sys
import threading

import numpy as np
import pytest
import tensorflow as tf

import gradwright as gw
from gradwright.check import audit, guess, met
from gradwright.check.find import excluded, files_below, package_of, search
from gradwright.check.found import found, is_inside_framework, rule_in
from gradwright.check.quiet import random_kept, silence
from gradwright.check.watch import PER_PLACE, Watch, watching
from gradwright.check.written import rules_written
from gradwright.frameworks import tf_audit

HEAD = "import functools\nimport tensorflow as tf\nimport gradwright as gw\n"


def double(x):
    return 2 * x, lambda upstream: 2 * upstream


@pytest.fixture
def module(tmp_path, request):
    """Write a module with the given source, and say where."""

    def write(source, name=None):
        path = tmp_path / (name or f"rules_{abs(hash(request.node.name))}.py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(HEAD + source)
        return str(path)

    before = set(sys.modules), sys.path[:]
    yield write
    sys.path[:] = before[1]
    for name in set(sys.modules) - before[0]:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def names(result):
    return [rule.name for rule in result.rules]


# Finding


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("@gw.custom_gradient\ndef f(x): return x, lambda u: u", ["f"]),
        ("@tf.custom_gradient\ndef f(x): return x, lambda u: u", ["f"]),
        ("f = tf.function(tf.custom_gradient(lambda x: (x, lambda u: u)))", ["<lambda>"]),
        ("@tf.function\n@gw.custom_gradient\ndef f(x): return x, lambda u: u", ["f"]),
        ("@gw.custom_gradient\ndef f(x, k): return x, lambda u: u\ng = functools.partial(f, k=2)", ["f"]),
        ("many = {'a': [tf.custom_gradient(lambda x: (x, lambda u: u))]}", ["<lambda>"]),
        ("class C:\n  @tf.custom_gradient\n  def m(self, x): return x, lambda u: u", ["C.m"]),
        ("class C:\n  @gw.custom_gradient\n  def m(self, x): return x, lambda u: u", ["C.m"]),
        ("class C:\n  @staticmethod\n  @gw.custom_gradient\n  def m(x): return x, lambda u: u\nc = C()", ["C.m"]),
        ("import os, json\nfrom math import pi\nx = 3", []),
    ],
)
def test_rules_are_found_wherever_a_module_keeps_them(module, source, expected):
    assert names(search((module(source),))) == expected


def test_a_rule_imported_from_elsewhere_belongs_there(module):
    module("@gw.custom_gradient\ndef f(x): return x, lambda u: u", "home_of_f.py")
    user = module("from home_of_f import f\n@gw.custom_gradient\ndef g(x): return x, lambda u: u", "user_of_f.py")
    assert names(search((user,))) == ["g"]


def test_an_instance_lends_itself_to_its_methods(module):
    source = "class C:\n  def __init__(self, k): self.k = k\n  @gw.custom_gradient\n"
    source += "  def m(self, x): return self.k * x, lambda u: self.k * u\nc = C(3.0)"
    (finding,) = audit.check_targets((module(source),)).findings
    assert (finding.rule, finding.verdict) == ("C.m", "right")


LAYER = """
import keras
class Layer(keras.layers.Layer):
    def __init__(self, scale, units: int):
        super().__init__()
        self.scale = scale
    def build(self, shape):
        self.w = self.add_weight(shape=shape[-1:], initializer="ones")
"""
METHOD = """
    @tf.custom_gradient
    def rule(self, x):
        w = tf.convert_to_tensor(self.w)
        return x * w, lambda upstream, variables=None: (upstream * w, [tf.reduce_sum(upstream * x, 0)])
    def call(self, x):
        return self.rule(x)
"""
INNER = """
    def call(self, x):
        @tf.custom_gradient
        def rule(x):
            return tf.identity(x), lambda upstream: upstream
        return rule(x)
"""


@pytest.mark.parametrize("body", [METHOD, INNER])
def test_rules_of_a_layer_are_reached_by_calling_the_layer(module, body):
    (finding,) = audit.check_targets((module(LAYER + body),)).findings
    assert (finding.rule.rpartition(".")[2], finding.verdict, finding.source) == ("rule", "right", "guessed")


def test_a_class_that_cannot_be_made_is_told(module):
    source = "class C:\n  def __init__(self, path): self.k = open(path)\n  @gw.custom_gradient\n"
    (finding,) = audit.check_targets((module(source + "  def m(self, x): return x, lambda u: u"),)).findings
    assert finding.verdict == "undecided"
    assert "`path` cannot be guessed" in finding.reason


def test_programs_in_graph_mode_are_proven_too():
    rule, graph = tf.custom_gradient(double), tf.Graph()

    def program():
        with graph.as_default():
            rule(tf.compat.v1.placeholder(tf.float32, [None, 2]))

    (meeting,) = meetings(program).meetings
    with graph.as_default():  # as after `disable_eager_execution`
        finding = audit.prove_meeting(meeting)
    assert (finding.verdict, finding.source) == ("right", "traced")


def test_the_place_is_the_line_of_def(module):
    path = module("\n@gw.custom_gradient(\n  strict=True,\n)\ndef f(x): return x, lambda u: u\n")
    path2 = module("\n@tf.custom_gradient\ndef f(x): return x, lambda u: u\n", "other.py")
    assert [rule.line for rule in search((path, path2)).rules] == [8, 6]


def test_files_of_one_name_do_not_shadow_each_other(module):
    one = module("@gw.custom_gradient\ndef f(x): return x, lambda u: u", "a/json.py")
    two = module("@gw.custom_gradient\ndef g(x): return x, lambda u: u", "b/json.py")
    assert names(search((one, two))) == ["f", "g"]
    import json

    assert hasattr(json, "dumps")


def test_a_file_in_a_package_is_imported_as_part_of_it(module, tmp_path):
    module("", "package_p/__init__.py")
    module("@gw.custom_gradient\ndef f(x): return x, lambda u: u", "package_p/base.py")
    path = module(
        "from .base import f\n@gw.custom_gradient\ndef g(x): return f(x), lambda u: u", "package_p/deep/__init__.py"
    )
    module("", "package_p/__init__.py")
    assert package_of(tmp_path / "package_p" / "base.py") == (tmp_path, "package_p.base")
    result = search((str(tmp_path / "package_p"),))
    assert "f" in names(result)
    assert path


def test_dotted_modules_are_searched_with_what_is_below_them(module, tmp_path, monkeypatch):
    module("", "package_q/__init__.py")
    module("@gw.custom_gradient\ndef f(x): return x, lambda u: u", "package_q/inner/ops.py")
    module("", "package_q/inner/__init__.py")
    monkeypatch.syspath_prepend(tmp_path)
    assert names(search(("package_q",))) == ["f"]


def test_a_broken_file_is_named_with_its_line_and_hides_nothing(module):
    good = module("@gw.custom_gradient\ndef f(x): return x, lambda u: u", "fine.py")
    bad = module("x = 1\ny = x / 0\n", "broken.py")
    typo = module("def (:\n", "typo.py")
    leaving = module("raise SystemExit(3)\n", "leaving.py")
    result = search((bad, typo, leaving, good, "no_such_file.py", "no.such.module"))
    assert names(result) == ["f"]
    told = [f"{p.where}: {p.message}" for p in result.problems]
    assert told[0].endswith("broken.py:5: cannot be imported: ZeroDivisionError: division by zero")
    assert "typo.py:4: cannot be imported: SyntaxError" in told[1]
    assert "leaving.py:4: cannot be imported: SystemExit: 3" in told[2]
    assert [p.where for p in result.problems[3:]] == ["no_such_file.py", "no.such.module"]


def test_folders_are_searched_without_hidden_built_and_excluded_files(tmp_path):
    for name in ("a.py", "b/c.py", ".hidden/d.py", "build/e.py", "b/__pycache__/f.py", "bad/g.py", "setup.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "pyproject.toml").write_text('[tool.gradwright]\nexclude = ["bad"]\n')
    assert [p.relative_to(tmp_path).as_posix() for p in files_below(tmp_path)] == ["a.py", "b/c.py"]
    assert [p.name for p in files_below(tmp_path / "bad")] == ["g.py"]
    assert not excluded(tmp_path / "bad")(tmp_path / "bad" / "g.py")


def test_rules_inside_functions_are_read_from_the_source():
    source = "def a(k):\n  @gw.custom_gradient(strict=True)\n  def f(x): ...\n"
    source += "  g = tf.custom_gradient(lambda x: x)\nh = custom_gradient(f)"
    written = [(rule.name, rule.line, rule.maker) for rule in rules_written(source)]
    assert written == [("f", 3, "a"), ("<lambda>", 4, "a"), ("f", 5, "")]


@pytest.mark.parametrize(
    ("source", "verdict"),
    [
        ("def f(x, k=2.0):\n  @tf.custom_gradient\n  def r(x): return k * x, lambda u: k * u\n  return r(x)", "right"),
        ("def f(x):\n  @gw.custom_gradient\n  def r(x): return 2 * x, lambda u: 3 * u\n  return r(x)", "wrong"),
        ("def f(k):\n  @gw.custom_gradient\n  def r(x): return x + 0 * k, lambda u: u\n  return r", "right"),
        ("def f(path):\n  @gw.custom_gradient\n  def r(x): return x, lambda u: u\n  return r(open(path))", "undecided"),
    ],
)
def test_a_rule_that_a_function_makes_is_reached_through_it(module, source, verdict):
    (finding,) = audit.check_targets((module(source),)).findings
    assert (finding.rule, finding.verdict, finding.source) == ("r", verdict, "guessed")
    assert verdict != "undecided" or "gradwright run" in finding.repair


# Inputs


@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (lambda x: x + 1.0, [(2, 3)]),
        (lambda x, w: x @ w, [(3, 3), (3, 3)]),
        (lambda x, w, b: tf.nn.bias_add(x @ w, b), [(2, 3), (3, 4), (4,)]),
        (lambda x: tf.nn.max_pool2d(x, 2, 2, "SAME"), [(1, 8, 8, 3)]),
        (lambda x, *, y: x * y, [(2, 3), (2, 3)]),
        (lambda *xs: tf.add_n(xs), [(2, 3)]),
    ],
)
def test_inputs_are_found_by_trying(function, shapes):
    tried = guess.guess(function, function)
    assert [tuple(v.shape) for v in (*tried.args, *tried.kwargs.values())] == shapes
    assert all(f"float32 {shape}" in tried.text for shape in shapes)


def test_inputs_lie_where_the_function_is_finite():
    assert float(tf.reduce_min(guess.guess(tf.math.log, lambda x: tf.math.log(x)).args[0])) > 0
    values = guess.guess(tf.math.asin, lambda x: tf.math.asin(x)).args[0]
    assert float(tf.reduce_max(tf.abs(values))) < 1


def test_plain_parameters_get_plain_values_and_words_are_not_guessed():
    def f(x, axis, n: int, training, rate: "float", flag: bool = True):
        return tf.reduce_sum(x, axis) * n * rate if training else None

    tried = guess.guess(f, f)
    assert (tried.kwargs["axis"], tried.kwargs["n"], tried.kwargs["training"], tried.kwargs["rate"]) == (
        -1,
        1,
        True,
        0.5,
    )
    for function in (lambda x, mode: x, lambda x, *, padding: x):
        with pytest.raises(guess.NoGuess, match="cannot be guessed"):
            guess.guess(function, function)


def test_what_fits_nowhere_is_undecided_with_the_line_to_add(module):
    source = "@gw.custom_gradient\ndef f(x):\n  raise ValueError('I want a picture')\n"
    source += "@tf.custom_gradient\ndef g(x):\n  raise ValueError('I want a picture')\n"
    first, second = audit.check_targets((module(source),)).findings
    assert first.verdict == second.verdict == "undecided"
    assert "I want a picture" in first.reason
    assert first.repair.startswith("@gw.custom_gradient(example=lambda: ")
    assert second.repair.startswith("g.example = lambda: ")


@pytest.mark.parametrize(
    ("example", "inputs"),
    [
        ("(tf.ones([4]), tf.ones([4]))", "float32 (4,), float32 (4,)"),
        ("{'x': tf.ones([4]), 'y': 2.0}", "x=float32 (4,), y=2.0"),
    ],
)
@pytest.mark.parametrize(
    "form", ["@gw.custom_gradient(example=lambda: {})\n{}", "@tf.custom_gradient\n{1}\nf.example = lambda: {0}"]
)
def test_an_example_is_used_as_it_is(module, form, example, inputs):
    function = "def f(x, y): return x * y, lambda u: (u * y, u * x)"
    (finding,) = audit.check_targets((module(form.format(example, function)),)).findings
    assert (finding.source, finding.inputs, finding.verdict) == ("example", inputs, "right")


def test_an_example_that_fails_is_told(module):
    source = "@gw.custom_gradient(example=lambda: 1 / 0)\ndef f(x): return x, lambda u: u"
    (finding,) = audit.check_targets((module(source),)).findings
    assert (finding.verdict, finding.reason) == ("undecided", "its example raises ZeroDivisionError: division by zero")


def test_one_rule_never_hides_the_others(module, monkeypatch):
    import gradwright.check  # noqa: F401

    package = sys.modules["gradwright.check"]
    real = package.check

    def failing(rule, *args, **kwargs):
        if "evil" in str(getattr(rule, "name", "")):
            raise RuntimeError("the prover itself broke")
        return real(rule, *args, **kwargs)

    monkeypatch.setattr(package, "check", failing)
    source = "@gw.custom_gradient\ndef evil(x): return x, lambda u: u\n"
    source += "@gw.custom_gradient\ndef good(x): return x, lambda u: u"
    evil, good = audit.check_targets((module(source),)).findings
    assert (evil.verdict, good.verdict) == ("undecided", "right")
    assert "the prover itself broke" in evil.reason


# Meeting


def meetings(program, **options):
    watch = Watch(**options)
    with watching(watch):
        program()
    return watch


def test_each_rule_and_signature_is_met_once_on_its_first_inputs():
    rule = tf.custom_gradient(double)

    def program():
        for value in (1.0, 2.0):
            rule(tf.constant([value, value]))
            rule(tf.constant([[value]]))
            rule(tf.constant([value], tf.float64))

    met_ones = meetings(program).meetings
    assert [met.described(m.args) for m in met_ones] == ["float32 (2,)", "float32 (1, 1)", "float64 (1,)"]
    assert all(float(tf.reduce_max(m.args[0])) == 1.0 for m in met_ones)


@pytest.mark.parametrize("decorate", [tf.custom_gradient, gw.custom_gradient])
def test_methods_loops_and_threads_are_met(decorate):
    class Layer:
        def __init__(self, k):
            self.k = k

        @decorate
        def call(self, x):
            return self.k * x, lambda upstream: self.k * upstream

    def made(k):
        return decorate(lambda x: (k * x, lambda upstream: k * upstream))

    x = tf.constant([1.0])

    def program():
        for k in (1.0, 2.0, 3.0):
            made(k)(x)
            made(k)(x)
        layer = Layer(2.0)
        layer.call(x)
        layer.call(x)
        threads = [threading.Thread(target=Layer(float(i)).call, args=(x,)) for i in range(4)]
        [t.start() for t in threads]
        [t.join() for t in threads]

    met_ones = meetings(program).meetings
    assert [met.closed_over(m.rule.function) for m in met_ones[:3]] == ["with k=1.0", "with k=2.0", "with k=3.0"]
    assert [m.rule.name.rpartition(".")[2] for m in met_ones[3:]] == ["call"] * 5


def test_a_rule_made_anew_at_each_step_is_one_rule_and_their_number_is_bounded():
    def step(noise):
        return tf.custom_gradient(lambda x: (x * noise, lambda upstream: upstream * noise))(tf.constant([1.0]))

    def program():
        for i in range(50):
            step(tf.constant([float(i)]))

    def unbounded():
        for i in range(PER_PLACE + 5):
            step(float(i))

    assert len(meetings(program).meetings) == 1
    watch = meetings(unbounded)
    assert len(watch.meetings) == PER_PLACE
    assert list(watch.left_out.values()) == [5]


def test_rules_in_functions_are_met_by_their_signature_and_proven_on_made_numbers():
    rule = tf.custom_gradient(lambda x: (tf.math.log(x), lambda upstream: upstream / x))
    function = tf.function(lambda x: rule(x), input_signature=[tf.TensorSpec([None, 2])])
    (meeting,) = meetings(lambda: function(tf.ones([3, 2]))).meetings
    assert met.described(meeting.args) == "float32 (?, 2)"
    finding = audit.prove_meeting(meeting)
    assert (finding.verdict, finding.source) == ("right", "traced")


def test_watching_does_not_change_what_autograph_converts():
    seen = []

    @tf.custom_gradient
    def rule(x):
        frames, frame = [], sys._getframe()
        while frame:
            frames.append("autograph_generated" in frame.f_code.co_filename)
            frame = frame.f_back
        seen.append((sys._getframe(1).f_code.co_filename, sum(frames)))
        return x + 0.0, lambda upstream: upstream

    def trace():
        tf.function(rule)(tf.constant([1.0]))
        tf.function(lambda x: rule(x))(tf.constant([1.0]))

    trace()
    meetings(trace)
    assert seen[1][0] == seen[3][0]
    assert seen[1][1] == seen[3][1]
    assert seen[0][0] == seen[2][0]


def test_watching_adds_nothing_to_a_graph():
    rule = tf.custom_gradient(lambda v, x: (v * x, lambda upstream: (upstream * x, upstream * v)))
    variable = tf.Variable([1.0, 2.0])

    def operations():
        graph = tf.function(lambda x: rule(variable, x)).get_concrete_function(tf.TensorSpec([2])).graph
        return [operation.type for operation in graph.get_operations()]

    plain = operations()
    watch = Watch()
    with watching(watch):
        assert operations() == plain
    assert [met.described(m.args) for m in watch.meetings] == ["float32 (2,), float32 (2,)"]


def test_wrappers_of_tensorflow_are_proven_as_what_they_promise():
    def program():
        with tf.GradientTape() as tape:
            x = tf.constant([0.3, 1.2])
            tape.watch(x)
            y = tf.recompute_grad(tf.sin)(x) + tf.recompute_grad(lambda x: x * x)(x)
        tape.gradient(y, x)
        tf.grad_pass_through(tf.round)(x)

    watch = meetings(program)
    findings = audit.prove_meetings(watch.take())
    assert [f.rule for f in findings] == ["recompute_grad(sin)", "recompute_grad(<lambda>)", "grad_pass_through(round)"]
    assert [f.verdict for f in findings] == ["right"] * 3
    assert all("test_audit.py:" in f.where for f in findings)


def test_rules_inside_tensorflow_are_met_only_on_demand():
    def program():
        tf.nn.silu(tf.constant([1.0]))

    assert meetings(program).meetings == []
    (meeting,) = meetings(program, inside=True).meetings
    assert is_inside_framework(meeting.rule)


def test_inputs_are_copies_that_the_program_cannot_reach():
    rule = tf.custom_gradient(lambda a, v, d: (d["x"] * v, lambda upstream: (None, upstream, upstream)))
    array, variable = np.ones(2), tf.Variable([1.0, 1.0])
    structure = {"x": tf.constant([3.0, 3.0])}

    def program():
        rule(array, variable, structure)
        array[:], structure["x"] = 7, None
        variable.assign([9.0, 9.0])

    (meeting,) = meetings(program).meetings
    kept = [meeting.args[0], meeting.args[1], meeting.args[2]["x"]]
    assert [np.asarray(value).tolist() for value in kept] == [[1.0, 1.0], [1.0, 1.0], [3.0, 3.0]]


def test_reading_a_variable_for_the_copy_does_not_put_it_on_a_tape():
    rule = tf.custom_gradient(lambda v: (tf.constant(1.0), lambda upstream: upstream))
    variable = tf.Variable(1.0)

    def watched():
        with tf.GradientTape() as tape:
            rule(variable)
        return [v.ref() for v in tape.watched_variables()]

    plain = watched()
    watch = Watch()
    with watching(watch):
        assert watched() == plain
    assert len(watch.meetings) == 1


def test_inputs_beyond_the_bound_are_kept_as_signatures(monkeypatch):
    monkeypatch.setattr(sys.modules["gradwright.check.watch"], "MEMORY", 100)
    rule = tf.custom_gradient(double)
    small, large = meetings(lambda: (rule(tf.ones([5])), rule(tf.ones([50])))).meetings
    assert not met.has_spec(small.args)
    assert met.has_spec(large.args)


def test_a_hostile_argument_does_not_disturb_the_program():
    class Hostile:
        @property
        def shape(self):
            raise RuntimeError("do not look at me")

    rule = gw.custom_gradient(lambda x, h: (x * 2, lambda upstream: 2 * upstream))
    outputs = []
    assert meetings(lambda: outputs.append(rule(tf.constant([1.0]), Hostile()))).meetings == []
    assert outputs[0].numpy().tolist() == [2.0]


def test_a_call_that_raises_is_forgotten_and_the_next_that_works_is_met():
    state = {"ready": False}

    @tf.custom_gradient
    def moody(x):
        if not state["ready"]:
            raise ValueError("not today")
        return double(x)

    @gw.custom_gradient
    def strict(x):
        if not state["ready"]:
            raise ValueError("not today")
        return double(x)

    def program():
        for ready in (False, True):
            state["ready"] = ready
            for rule in (moody, strict):
                try:
                    rule(tf.constant([1.0]))
                except ValueError:
                    assert not ready

    assert [m.rule.name for m in meetings(program).meetings] == ["moody", "strict"]


def test_ready_rules_stand_where_the_program_calls_them():
    watch = meetings(lambda: gw.ops.reverse(tf.constant([1.0])))
    (finding,) = audit.prove_meetings(watch.take())
    assert (finding.rule, finding.verdict) == ("reverse", "right")
    assert "test_audit.py:" in finding.where


def test_nothing_stays_watched_after_an_error():
    kind = tf_audit.rule_class()
    before = kind.__call__, type(gw.custom_gradient(double)).__call__, sys.meta_path[:]
    with pytest.raises(ZeroDivisionError):
        meetings(lambda: 1 / 0)
    assert (kind.__call__, type(gw.custom_gradient(double)).__call__, sys.meta_path[:]) == before


def test_without_the_private_class_the_public_decorator_is_watched(monkeypatch):
    monkeypatch.setattr(tf_audit, "rule_class", lambda: None)
    original = tf.custom_gradient

    def program():
        made = tf.custom_gradient(double)
        assert made(tf.constant([1.0])).numpy().tolist() == [2.0]
        tf.custom_gradient()(double)(tf.constant([1.0, 2.0]))

    watch = meetings(program)
    assert [m.rule.name for m in watch.meetings] == ["double", "double"]
    assert [f.verdict for f in audit.prove_meetings(watch.take())] == ["right", "right"]
    assert tf.custom_gradient is original


def test_a_paused_thread_is_not_watched():
    watch, rule = Watch(), tf.custom_gradient(double)
    with watching(watch):
        with watch.paused():
            rule(tf.constant([1.0]))
        assert watch.meetings == []
        rule(tf.constant([1.0]))
    assert len(watch.meetings) == 1


# The sum


def test_the_exit_status_is_that_of_the_gravest_outcome():
    def status(*verdicts, problems=(), program=None):
        findings = [audit.Finding("f", "a.py:1", verdict) for verdict in verdicts]
        return audit.Audit(findings, list(problems), program_status=program).exit_status

    problem = audit.Problem("a.py", "cannot be imported")
    assert status("right", "right") == 0
    assert status("right", "wrong", "undecided", problems=[problem]) == 1
    assert status("right", program=7) == 1
    assert status("right", "undecided", problems=[problem]) == 2
    assert status() == 2
    assert status("right", "undecided") == 3


def test_a_saved_audit_is_the_same_when_read_again(module):
    import json

    result = audit.check_targets((module("@gw.custom_gradient\ndef f(x): return 2 * x, lambda u: 3 * u"), "no_such.py"))
    again = audit.Audit.from_dict(json.loads(result.to_json()))
    assert json.loads(again.to_json()) == json.loads(result.to_json())
    assert again.exit_status == 1


def test_silence_covers_python_and_what_lies_below(capfd):
    import os

    with silence():
        print("python")
        os.write(1, b"below")
        os.write(2, b"below")
    print("after")
    assert capfd.readouterr() == ("after\n", "")


def test_random_numbers_go_on_as_if_none_had_been_drawn():
    import random

    def numbers():
        drawn = (tf.random.normal([]), tf.random.normal([], seed=5), generator.normal([]))
        return random.random(), np.random.rand(), *map(float, drawn)

    def seeded():
        random.seed(1)
        np.random.seed(1)
        tf.random.set_seed(1)
        tf.random.set_global_generator(tf.random.Generator.from_seed(1))
        return tf.random.get_global_generator()

    generator = seeded()
    expected = numbers()
    generator = seeded()
    with random_kept():
        numbers()
    assert numbers() == expected


def test_a_rule_is_found_behind_its_wrappers():
    rule = gw.custom_gradient(double)
    assert rule_in(tf.function(rule)) is rule
    assert rule_in(double) is None
    assert found(rule).name == "double"


def test_how_far_an_audit_is_is_shown_on_a_terminal_only(monkeypatch, capfd):
    import os

    from gradwright.check.counter import counter

    with counter() as step:
        step(0, 2, "first")
    assert capfd.readouterr() == ("", "")
    ours, theirs = os.openpty()
    with os.fdopen(theirs, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        monkeypatch.setenv("TERM", "xterm")
        with counter() as step:
            step(0, 2, "first")
            step(1, 2, "second")
        monkeypatch.undo()
        assert b"proving 2 of 2: second" in os.read(ours, 4096)
    os.close(ours)


def test_rules_left_out_are_undecided():
    from gradwright.check.audit import Audit

    assert Audit(left_out=1, findings=[]).exit_status == 2
    right = Audit.from_dict(Audit(left_out=6).to_dict())
    assert right.left_out == 6
