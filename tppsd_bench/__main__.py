"""``python -m tppsd_bench``."""

from tppsd_bench.cli import main

if __name__ == "__main__":
    main()
