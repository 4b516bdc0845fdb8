"""Makes the boot images from their sources in reference_templates/; the program is in `patchbay/boot/generate.py`."""

import sys

from patchbay.boot.generate import main

if __name__ == "__main__":
    sys.exit(main())
