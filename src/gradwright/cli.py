"""The command line: `gradwright check`, `run`, `explain` and `report`.

Exit status of all commands: 0 all right, 1 something wrong, 2 usage (nothing to prove, not importable), 3 undecided.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gradwright._version import __version__

if TYPE_CHECKING:
    from gradwright.check.audit import Audit

Handler = Callable[..., None]
PASSED_ON = {"ignore_unknown_options": True, "allow_interspersed_args": False}


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="gradwright")
def main() -> None:
    """Prove custom gradients, and learn why one is missing.

    \b
    gradwright check examples/            prove every rule in these files
    gradwright run train.py --epochs 1    prove every rule the program really calls
    gradwright explain train.py           why a gradient is None

    Exit status: 0 all right, 1 something wrong, 2 usage, 3 undecided.
    """


def output_options(command: Handler) -> Handler:
    """The options that say what is written, and where."""
    command = click.option("--json", "as_json", is_flag=True, help="Print one line of JSON in place of the table.")(
        command
    )
    command = click.option("-o", "--output", type=click.Path(dir_okay=False), help="Also save the report as JSON.")(
        command
    )
    return click.option("-v", "--verbose", is_flag=True, help="Print each rule's whole report.")(command)


def proof_options(command: Handler) -> Handler:
    """The options that say what is proven, and as what."""
    command = click.option("--all", "inside", is_flag=True, help="Also TensorFlow's and Keras's own rules.")(command)
    named = "A rule whose gradient differs from its forward's on purpose; its contract is proven. May be repeated."
    return click.option("--surrogate", "surrogates", multiple=True, metavar="NAME", help=named)(command)


@main.command()
@click.argument("targets", nargs=-1, required=True, metavar="PATH_OR_MODULE...")
@proof_options
@output_options
def check(
    targets: tuple[str, ...],
    inside: bool,
    surrogates: tuple[str, ...],
    as_json: bool,
    output: str | None,
    verbose: bool,
) -> None:
    """Prove every rule in files, directories and modules.

    \b
    gradwright check layers.py
    gradwright check examples/ mypackage.ops --json

    A rule is proven on its own inputs, `custom_gradient(example=lambda: (x, y))`; without them simple ones are tried,
    and the report says that they were guessed. The files are imported, not run as programs.
    """
    from gradwright.check.audit import check_targets
    from gradwright.check.counter import counter
    from gradwright.check.quiet import silence

    with counter() as step, silence():
        audit = check_targets(targets, inside, surrogates, step)
    finish(audit, as_json, output, verbose)


@main.command(context_settings=PASSED_ON)
@click.option("-m", "module", help="Run a module, as `python -m` does.")
@click.option("--eager", is_flag=True, help="Run compiled functions op by op: the rules in them meet real values.")
@proof_options
@output_options
@click.argument("script", required=False)
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
def run(
    script: str | None,
    args: tuple[str, ...],
    module: str | None,
    eager: bool,
    inside: bool,
    surrogates: tuple[str, ...],
    as_json: bool,
    output: str | None,
    verbose: bool,
) -> None:
    """Run your program, and prove every rule that it really calls.

    \b
    gradwright run train.py --epochs 1
    gradwright run -m mypackage.train --epochs 1

    The program computes and prints what it always does. When it has ended, each rule is proven once for each signature
    on the inputs it met first, and the report follows the program's own output; with --json it is the last line.
    """
    from gradwright.check.run import run_program

    args = args if module is None or script is None else (script, *args)
    if module is None and script is None:
        raise click.UsageError("name a script, or a module with -m: gradwright run train.py")
    audit = run_program(module or script or "", args, module is not None, inside, surrogates, eager)
    finish(audit, as_json, output, verbose)


@main.command(context_settings=PASSED_ON)
@click.option("--json", "as_json", is_flag=True, help="Print JSON in place of text.")
@click.argument("script", type=click.Path(exists=True, dir_okay=False))
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
def explain(script: str, args: tuple[str, ...], as_json: bool) -> None:
    """Run your program, and say of each missing gradient why it is missing.

    \b
    gradwright explain train.py
    """
    try:
        explainer = import_module("gradwright.explain.script")
    except ImportError as error:
        raise click.ClickException(f"this installation cannot explain scripts: {error}") from None
    sys.exit(explainer.run(script, list(args), json=as_json))


@main.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@output_options
def report(file: str, as_json: bool, output: str | None, verbose: bool) -> None:
    """Print a saved report again.

    \b
    gradwright check examples/ --output report.json
    gradwright report report.json --verbose
    """
    from gradwright.check.audit import Audit

    try:
        audit = Audit.from_dict(json.loads(Path(file).read_text(encoding="utf-8")))
    except (ValueError, KeyError, TypeError, AttributeError):
        raise click.UsageError(
            f"{file} is no report of gradwright; make one with: gradwright check PATH --output {file}"
        ) from None
    finish(audit, as_json, output, verbose)


def finish(audit: Audit, as_json: bool, output: str | None, verbose: bool) -> None:
    """Print and save an audit, and leave with its exit status."""
    if output:
        save(audit, output)
    if as_json:
        click.echo(audit.to_json())
    else:
        from gradwright.check.table import show

        show(audit, details=verbose)
    sys.exit(audit.exit_status)


def save(audit: Audit, output: str) -> None:
    """Write an audit down as JSON."""
    try:
        Path(output).write_text(audit.to_json() + "\n", encoding="utf-8")
    except OSError as error:
        raise click.UsageError(f"the report cannot be saved: {error}") from None
