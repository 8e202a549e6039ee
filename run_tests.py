"""Runs the conformance suites; ``python run_tests.py --help`` lists the options."""

from harness.runner.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
