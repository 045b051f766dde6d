#!/usr/bin/env bash
# boot.sh ROOT CGROUP: runs the systemd of a root folder as the first process of namespaces of its own: of processes, mounts,
# networks and control groups, which are those below CGROUP, a folder of a cgroup2 hierarchy. As root. It ends with systemd,
# which a SIGKILL to the child of this process ends.
set -euo pipefail
root=$(realpath "$1") group=$2
mkdir -p "$group"
echo $$ >"$group/cgroup.procs"
# shellcheck disable=SC2016 # the shell in the namespaces expands it
exec unshare --mount --propagation private --pid --fork --kill-child --uts --ipc --net --cgroup bash -euc '
root=$1
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount -t sysfs sysfs "$root/sys"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
for folder in run tmp; do mount -t tmpfs tmpfs "$root/$folder"; done
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
for device in null zero full random urandom tty; do
    touch "$root/dev/$device"
    mount --bind "/dev/$device" "$root/dev/$device"
done
ln -s /proc/self/fd "$root/dev/fd"
mkdir "$root/dev/shm" "$root/dev/pts"
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
hostname booted
ip link set lo up
cd "$root"
pivot_root . mnt
cd /
umount -l /mnt
exec env -i container=other PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --system --show-status=no' \
    boot "$root" </dev/null
