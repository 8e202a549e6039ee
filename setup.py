"""Packaging of torch-harness: ``pip install -e .`` installs the library and the ``torch-harness`` command."""

import ast
from pathlib import Path

from setuptools import find_packages, setup

HERE = Path(__file__).parent


def version() -> str:
    """``__version__`` of the package, read without importing it."""
    for node in ast.parse((HERE / "harness" / "__init__.py").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", None) == "__version__":
            return str(ast.literal_eval(node.value))
    raise ValueError("harness/__init__.py sets no __version__")


# A wheel has the suites below the package (harness/runner/selection/suites_root.py); their name stays free.
BUNDLED = "harness.bundled"
SUITES = find_packages(include=["suites", "suites.*"], exclude=["suites.selftest*"])
# Their tables, times and map of executed files, the sources of the fake accelerator, the scripts of the book.
DATA = ["*.txt", "*.json", "*.gz", "*.cpp", "*.h", "entries/*.py"]

setup(
    name="torch-harness",
    version=version(),
    description="unittest on real ranks: a test harness and conformance suites for distributed PyTorch",
    long_description=(HERE / "README.rst").read_text(encoding="utf-8"),
    long_description_content_type="text/x-rst",
    license_expression="BSD-3-Clause",
    license_files=["LICENSE"],
    packages=[*find_packages(include=["harness", "harness.*"]), *(f"{BUNDLED}.{name}" for name in SUITES)],
    package_dir={f"{BUNDLED}.suites": "suites"},
    package_data={
        **{f"{BUNDLED}.{name}": DATA for name in SUITES},
        "harness": ["py.typed"],
        "harness.report": ["templates/*"],
        "harness.conformance": ["templates/*"],
    },
    python_requires=">=3.10",
    install_requires=[
        "torch>=2.11,<2.14",
        "numpy>=1.26",
        "expecttest>=0.2",
        "hypothesis>=6.100",
        "psutil>=5.9",
        "rich>=13",
        "junitparser>=3.1",
        "jinja2>=3.1",
        "filelock>=3.12",
        'tomli>=2.0; python_version < "3.11"',
    ],
    extras_require={
        "migrate": ["libcst>=1.8"],
        "completion": ["shtab>=1.7"],
        "stacks": ["py-spy>=0.4"],
        "suites": ["transformers>=4.50"],
        "test": ["coverage>=7.4", "pytest>=8", "pytest-xdist>=3.6"],
        "dev": ["ruff", "mypy", "vulture"],
    },
    entry_points={
        "console_scripts": ["torch-harness = harness.runner.cli:main"],
        "pytest11": ["torch_harness = harness.pytest_plugin.plugin"],
    },
    classifiers=[
        "Development Status :: 3 - Alpha",
        "Framework :: Pytest",
        "Intended Audience :: Developers",
        "Operating System :: POSIX :: Linux",
        "Programming Language :: Python :: 3 :: Only",
        "Programming Language :: Python :: 3.10",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Programming Language :: Python :: 3.14",
        "Programming Language :: Python :: Implementation :: CPython",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Topic :: Software Development :: Testing",
        "Topic :: Software Development :: Testing :: Unit",
        "Typing :: Typed",
    ],
)
