"""`python -m patchbay`: the same as the `patchbay` command."""

from patchbay.cli import main

if __name__ == "__main__":
    main()
