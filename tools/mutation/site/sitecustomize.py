"""Python imports this at its start where ``tools/mutate.py`` put it on the path; see ``planting.py``."""

import os

from tools.mutation.planting import install

install(os.environ)
