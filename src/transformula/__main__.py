"""`python -m transformula`, for where no script is installed."""

import sys

from .cli import main

sys.exit(main())
