"""The root of a machine of a user who has Debian and nginx, and no nightwatt yet.

Made as the other roots are, in a recipe of its own so that a change here makes those no new ones.
"""

import os
import shutil

import images
import kernels
from common import HERE, need, once, run

# Of priority standard and above in Debian (its installer brings them), and nginx. Besides them: kmod,
# udev and busybox-static, which start the guest.
PACKAGES = (
    "systemd,systemd-sysv,libpam-systemd,libnss-systemd,dbus,openssh-server,iproute2,procps,udev,kmod,busybox-static"
    ",ca-certificates,curl,nginx"
)
UNIT = "nightwatt-vm-set-up.service"


def make(product):
    tree = os.path.join(os.path.dirname(product), "tree")
    images.bootstrap(tree, PACKAGES)
    images.put_test_files(tree)
    run("chroot", tree, "depmod", kernels.version())
    shutil.copy(os.path.join(images.FILES, UNIT), os.path.join(tree, "etc", "systemd", "system"))
    run("systemctl", f"--root={tree}", "enable", UNIT)
    run("systemctl", f"--root={tree}", "mask", *images.UNWANTED_UNITS)
    resolver = os.path.join(tree, "etc", "resolv.conf")
    if os.path.lexists(resolver):
        os.remove(resolver)
    images.write(tree, {
        "hostname": "guest\n", "hosts": "127.0.0.1 localhost guest\n", "machine-id": "", "fstab": "",
        # QEMU's own network answers there, with what this machine's resolver says.
        "resolv.conf": "nameserver 10.77.0.3\n",
    })
    images.file_system(tree, 1024, product)


def root():
    need("mke2fs", kernels.BUSYBOX)
    recipe = os.path.join(HERE, "nginx_root.py")
    return once(f"nginx-{images.digest(recipe, images.FILES, kernels.version())}", make)
