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
    pip install -qq "$work/dist"/*.whl pytest
fi
mkdir "$work/project"
cd "$work/project"
cat >test_sums.py <<'TEST'
import torch
import torch.distributed as dist
from harness import DistributedTestBase, run_tests


class Sums(DistributedTestBase):
    world_size = 2

    def test_sum(self):
        self.create_pg("cpu")
        tensor = torch.tensor([self.rank + 1.0])
        dist.all_reduce(tensor)
        self.assertEqual(tensor, torch.tensor([3.0]))


if __name__ == "__main__":
    run_tests()
TEST
[[ "$(torch-harness --version)" == "torch-harness $version" ]]
python -c 'import harness, sys; sys.exit(not harness.__file__.startswith(sys.prefix))'
torch-harness -q test_sums.py --report html --report-dir report
test -s report/report.html -a -s report/junit.xml
python test_sums.py
python -m pytest -q test_sums.py

mv "$work/dist"/* "$dist"
echo "== checked: $(cd "$dist" && echo *"$version"*)"
