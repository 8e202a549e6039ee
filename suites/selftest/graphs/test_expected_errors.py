"""``ExpectedError``: what a function raises in eager it has to raise compiled as well."""

from __future__ import annotations

import unittest
from typing import Any

import torch

from harness import UsageError
from harness.graphs import verify_aot
from suites.selftest.graphs.verifying import Changed, VerifyTestCase, inputs, writes


class ExpectedErrorTest(VerifyTestCase):
    """The argument ``raises`` of ``verify_aot``."""

    def test_errors_of_both(self) -> None:
        """With ``raises`` both have to raise; without, eager's error is raised with a note."""

        def adds(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            return a + b

        unlike = [torch.ones(2), torch.ones(3)]
        verify_aot(adds, unlike, raises=RuntimeError)
        with self.assertRaisesRegex(RuntimeError, "must match the size") as caught:
            verify_aot(adds, unlike)
        said = "\n".join([*caught.exception.args, *getattr(caught.exception, "__notes__", ())])
        self.assertIn("This is the function itself, in eager: nothing was compiled yet.", said)
        with self.assertRaisesRegex(AssertionError, "adds did not raise RuntimeError compiled"):
            verify_aot(
                adds, unlike, raises=RuntimeError, front_end=Changed(lambda compiled, eager, args: args[0])
            )
        with self.assertRaisesRegex(AssertionError, "writes did not raise RuntimeError in eager"):
            verify_aot(writes, inputs(), raises=RuntimeError)

    def test_errors_of_one_kind(self) -> None:
        """The compiled error has eager's type or a subclass, and both texts match the pattern."""

        class Derived(IndexError):
            pass

        class Raises(Changed):
            """A front end whose compiled functions raise."""

            def __init__(self, error: Exception) -> None:
                def call(*_: Any) -> None:
                    raise error

                super().__init__(call)

        def refuses(a: torch.Tensor) -> None:
            raise IndexError("seven is too many")

        def refused(compiled: Exception, raises: type[Exception], regex: str | None = None) -> None:
            verify_aot(
                refuses, [torch.ones(2)], raises=raises, raises_regex=regex, front_end=Raises(compiled)
            )

        refused(IndexError("seven"), LookupError, "^seven")
        refused(Derived("seven"), IndexError, "^seven")
        for compiled, raises, regex, text in (
            (
                KeyError("seven"),
                LookupError,
                None,
                "raised another error compiled: KeyError: 'seven'; in eag",
            ),
            (LookupError("seven"), LookupError, None, "raised another error compiled: LookupError: seven;"),
            (
                IndexError("eight"),
                IndexError,
                "seven",
                "raised compiled an error that does not match 'seven'",
            ),
            (
                IndexError("eight"),
                IndexError,
                "eight",
                "raised in eager an error that does not match 'eight'",
            ),
        ):
            with self.subTest(text), self.assertRaisesRegex(AssertionError, text):
                refused(compiled, raises, regex)
        with self.assertRaisesRegex(KeyError, "other"):
            refused(KeyError("other"), IndexError)

    def test_usage_errors_are_not_what_is_raised(self) -> None:
        """A UsageError is raised unchanged, unless ``raises`` is one."""
        scale = torch.ones(2)

        def captures(a: torch.Tensor) -> torch.Tensor:
            if type(a) is torch.Tensor:  # not as it is traced
                raise ValueError("eager alone")
            return a * scale

        for raises in (ValueError, Exception):
            with self.assertRaisesRegex(UsageError, "uses a tensor that is neither"):
                verify_aot(captures, [torch.ones(2)], raises=raises)

        def refuses(a: torch.Tensor) -> None:
            raise UsageError("mine")

        verify_aot(refuses, [torch.ones(2)], raises=UsageError)
        with self.assertRaisesRegex(UsageError, "mine"):
            verify_aot(refuses, [torch.ones(2)], raises=ValueError)


if __name__ == "__main__":
    unittest.main()
