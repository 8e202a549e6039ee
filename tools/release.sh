#!/usr/bin/env bash
# Builds the source archive and the wheel of the last commit, checks their metadata, installs the wheel in a fresh
# environment, and runs tests there, outside of the tree. The two archives are then in DIRECTORY (default: dist).
# Nothing is uploaded: `twine upload DIRECTORY/*` does that.
#
#   tools/release.sh [DIRECTORY]
#
# PYTHON names the interpreter. With SITE_PACKAGES=DIR the environment takes the libraries, torch among them, from a
# directory in which they are installed, and downloads nothing but the two tools of a release.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
unset PYTHONPATH
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1

mkdir -p "${1:-dist}"
dist=$(realpath "${1:-dist}")
python=${PYTHON:-python3}
work=$(mktemp -d "${TMPDIR:-/tmp}/torch-harness-release.XXXXXX")
trap 'rm -rf "$work"' EXIT

git diff --quiet HEAD || {
    echo "there are changes that are not committed: a release is of a commit" >&2
    exit 2
}
git archive HEAD | tar -x -C "$work" --one-top-level=tree
version=$(sed -n 's/^__version__ = "\(.*\)"$/\1/p' "$work/tree/harness/__init__.py")
grep -q "^$version - " CHANGELOG.rst || echo "note: CHANGELOG.rst has no section for $version yet" >&2

echo "== archives of $version"
"$python" -m venv "$work/tools"
"$work/tools/bin/pip" install -qq build twine
"$work/tools/bin/python" -m build -o "$work/dist" "$work/tree" >"$work/build.log" || {
    tail -20 "$work/build.log" >&2
    exit 1
}
"$work/tools/bin/python" -m twine check --strict "$work/dist"/*

echo "== fresh environment"
"$python" -m venv "$work/venv"
# shellcheck source=/dev/null
source "$work/venv/bin/activate"
if [[ -n "${SITE_PACKAGES:-}" ]]; then
    site=$(python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    realpath "$SITE_PACKAGES" >"$site/libraries.pth"
    pip install -qq --no-deps "$work/dist"/*.whl
else
    pip install -qq "$(echo "$work/dist"/*.whl)[suites]" pytest
fi
mkdir "$work/project"
cd "$work/project"
cp "$work/tree/docs/tutorial/tests/test_sums.py" .
[[ "$(torch-harness --version)" == "torch-harness $version" ]]
python -c 'import harness, sys; sys.exit(not harness.__file__.startswith(sys.prefix))'
torch-harness -q test_sums.py --report html --report-dir report
test -s report/report.html -a -s report/junit.xml
python test_sums.py
python -m pytest -q test_sums.py
# The suites are there without a checkout, and are no module for others to meet.
torch-harness --suites c10d.test_stores c10d.test_barriers --report-dir suites-report
python -c 'import importlib.util, sys; sys.exit(importlib.util.find_spec("suites") is not None)'

mv "$work/dist"/* "$dist"
echo "== checked: $(cd "$dist" && echo *"$version"*)"
