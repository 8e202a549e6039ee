"""Every default tolerance of ``TestCase.assertEqual``: for Python's numbers and for each dtype of torch.

A tolerance is a pair, ``(relative, absolute)``. The numbers are those that ``torch.testing.assert_close``
documents. Dtypes are keys by name, so that a test without tensors does not import torch.
"""

from __future__ import annotations

from collections.abc import Mapping

EXACT = (0.0, 0.0)
FLOAT32 = (1.3e-6, 1e-5)
# A Python float or complex number in a test is nearly always compared with what came out of a float32 tensor;
# upstream's TestCase takes float32's tolerances for it too.
PYTHON_FLOAT = FLOAT32

BY_DTYPE: Mapping[str, tuple[float, float]] = {
    "float16": (1e-3, 1e-5),
    "bfloat16": (1.6e-2, 1e-5),
    "float32": FLOAT32,
    "float64": (1e-7, 1e-7),
    "complex32": (1e-3, 1e-5),
    "complex64": FLOAT32,
    "complex128": (1e-7, 1e-7),
    # Quantized values are compared dequantized, as float32.
    **dict.fromkeys(("quint8", "quint4x2", "quint2x4", "qint8", "qint32"), FLOAT32),
}


def default_tolerances(*dtypes: str) -> tuple[float, float]:
    """The looser of the tolerances of these dtypes, each of the two numbers by itself.

    A dtype is named without its module: ``"float32"``. Those that are not in ``BY_DTYPE`` (integers, bool,
    float8) compare exactly.
    """
    found = [BY_DTYPE.get(dtype, EXACT) for dtype in dtypes]
    return max(relative for relative, _ in found), max(absolute for _, absolute in found)
