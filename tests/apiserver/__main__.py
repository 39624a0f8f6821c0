# SPDX-License-Identifier: GPL-2.0-or-later
"""python3 tests/apiserver [options]: run the server."""
import logging
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [os.path.dirname(HERE)] + [p for p in sys.path if os.path.abspath(p) != HERE]

from apiserver.server import main  # noqa: E402

# asyncio warns of writes to connections that a client has reset, which faults cause on purpose.
logging.getLogger("asyncio").setLevel(logging.ERROR)
sys.exit(main())
