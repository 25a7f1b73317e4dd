"""``python -m candle``: what is installed here, and what goes to whom without a copy."""

import sys

from .doctor import main

if __name__ == "__main__":
    sys.exit(main())
