"""The plugin proves what the tests of somebody else's project call. Each case is a little project, run by pytest."""

import pytest
import tensorflow as tf  # loaded here: a module that pytest unloads after a case cannot be loaded twice

pytest_plugins = ["pytester"]

RULES = """
import random
import numpy as np
import tensorflow as tf

@tf.custom_gradient
def square(x):
    print("square runs")
    return x * x, lambda upstream: 2 * x * upstream

@tf.custom_gradient
def tripled(x):
    return 3 * x, lambda upstream: -3 * upstream

@tf.custom_gradient
def unsteady(x):
    return tf.random.normal([2]) * x + random.random() + np.random.rand(), lambda upstream: upstream
"""


@pytest.fixture
def project(pytester):
    pytester.makepyfile(rules=RULES)
    pytester.syspathinsert()
    return pytester


def test_a_wrong_rule_fails_the_test_that_called_it_and_the_report_is_the_failure(project):
    project.makepyfile("""
        from rules import *
        def test_square(): square(tf.constant([1.0, 2.0]))
        def test_tripled(): tripled(tf.constant([1.0, 2.0]))
    """)
    result = project.runpytest_inprocess("--gradwright", "-p", "no:cacheprovider")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*_ test_tripled _*", "*tripled*WRONG*rules.py:*", "*sign*", "*repair*"])
    result.stdout.fnmatch_lines(["2 proven: 1 right, 1 wrong"])


def test_nothing_happens_without_the_option(project):
    project.makepyfile("""
        from rules import *
        def test_tripled(): tripled(tf.constant([1.0, 2.0]))
    """)
    result = project.runpytest_inprocess()
    result.assert_outcomes(passed=1)
    assert "gradwright ==" not in result.stdout.str()


@pytest.mark.parametrize("how", ["@pytest.mark.gradwright\ndef test_it():", "def test_it(prove_gradients):"])
def test_the_marker_and_the_fixture_ask_for_one_test(project, how):
    other = "import pytest\nfrom rules import *\ndef test_other(): tripled(tf.constant([1.0]))\n"
    project.makepyfile(other + f"{how} tripled(tf.constant([2.0]))")
    result = project.runpytest_inprocess("--strict-markers")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*_ test_it _*"])


def test_a_failing_test_keeps_its_failure_and_gets_the_report(project):
    project.makepyfile("""
        from rules import *
        def test_both():
            tripled(tf.constant([1.0, 2.0]))
            assert "mine" == "own"
    """)
    result = project.runpytest_inprocess("--gradwright")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*assert 'mine' == 'own'*", "*Captured gradwright call*", "*tripled*WRONG*"])


def test_rules_called_by_fixtures_and_unittest_cases_are_met(project):
    project.makepyfile("""
        import unittest, pytest
        from rules import *
        @pytest.fixture
        def made(): return tripled(tf.constant([1.0]))
        def test_made(made): pass
        class TestOld(unittest.TestCase):
            def test_old(self): tripled(tf.constant([[1.0]]))
    """)
    project.runpytest_inprocess("--gradwright").assert_outcomes(failed=2)


def test_proofs_print_nothing_and_draw_no_random_numbers(project):
    project.makepyfile("""
        from rules import *
        def numbers():
            return random.random(), np.random.rand(), float(tf.random.normal([]))
        def seeded():
            random.seed(1); np.random.seed(1); tf.random.set_seed(1)
            unsteady(tf.constant([1.0, 2.0]))
        def test_first(): seeded()
        def test_proven_in_between():
            kept.append(numbers())
            seeded()
            assert kept == [numbers()]
        def test_printed(capfd):
            square(tf.constant([1.0, 2.0]))
            assert capfd.readouterr().out == "square runs\\n"
        kept = []
    """)
    result = project.runpytest_inprocess("--gradwright", "-rA")
    assert "test_proven_in_between" in result.stdout.str()
    assert "assert kept" not in "".join(line for line in result.stdout.lines if line.startswith("E"))
    result.assert_outcomes(passed=2, failed=1)  # the first, for its random gradient


def test_with_several_processes_the_summary_has_it_all(project):
    project.makepyfile("""
        from rules import *
        def test_square(): square(tf.constant([1.0, 2.0]))
        def test_tripled(): tripled(tf.constant([1.0, 2.0]))
    """)
    result = project.runpytest_subprocess("--gradwright", "-n", "2", "-p", "xdist")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["2 proven: 1 right, 1 wrong"])


def test_the_watch_ends_with_the_session(project):
    from tensorflow.python.ops import custom_gradient

    before = custom_gradient.Bind.__call__
    project.makepyfile("from rules import *\ndef test_square(): square(tf.constant([1.0, 2.0]))")
    project.runpytest_inprocess("--gradwright").assert_outcomes(passed=1)
    assert custom_gradient.Bind.__call__ is before
    assert tf.executing_eagerly()
