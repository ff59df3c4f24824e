"""`python -m gradwright`: the command line."""

from gradwright.cli import main

main(prog_name="gradwright")
