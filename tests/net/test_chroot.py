# SPDX-License-Identifier: GPL-2.0-or-later
"""A lab in a chroot whose / is no mount point: `ip netns exec` fails there, which changes mounts."""
import os
import subprocess
import sys

import lab as L

CODE = "import sys; sys.path.insert(0, %r); import lab; print(lab.missing()); " \
    "lab.Lab(servers=False).close(); print('made')" % os.path.dirname(os.path.abspath(__file__))
# All folders of / are mounted in a folder of /tmp: the mount namespace removes them.
MOUNT = "set -e; for d in /*; do " \
    "if [ -L $d ]; then cp -P $d $0$d; " \
    "elif [ -d $d ]; then mkdir $0$d; mount --rbind $d $0$d; fi; done; " \
    "exec chroot $0 \"$@\""


def test_root_is_no_mount_point(tmp_path):
    r = subprocess.run(["unshare", "--mount", "sh", "-c", MOUNT, str(tmp_path), sys.executable, "-c",
                        CODE], capture_output=True, text=True, timeout=L.LIMIT, check=False)
    assert (r.returncode, r.stdout) == (0, "None\nmade\n"), r.stderr
