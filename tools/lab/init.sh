#!/bin/busybox sh
# shellcheck shell=dash
# The first process of a lab machine (machines.py starts them). The machine's root is the host's, read only, under a
# layer in memory: every program of the host runs here with its own libraries. /lab is the lab's folder on the host,
# shared and writable. Each virtio port named line* takes the names of jobs, and gives back what they print.
# From the kernel's command line: lab.address=IPV4/BITS lab.mtu=BYTES lab.memlock=KIB|unlimited, and lab.rail=IPV4/BITS
# where the RDMA device has a network card of its own.
/bin/busybox --install -s /bin
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev

# How far it came: the last lines that a machine has said when it does not come up.
say() {
    echo "lab: $*"
}

# What cannot be had ends the machine: the host sees that, and shows the console's last lines.
give_up() {
    say "$*"
    poweroff -f
}

option() {
    sed -n "s/.*\blab\.$1=\([^ ]*\).*/\1/p" /proc/cmdline
}

while read -r module; do
    insmod "/modules/$module" || give_up "no module $module"
done </modules/order
say "its modules are loaded"

mkdir -p /host /over /root
mount -t 9p -o trans=virtio,version=9p2000.L,ro,cache=loose,msize=524288 host /host || give_up "no root from the host"
mount -t tmpfs over /over
mkdir /over/upper /over/work
mount -t overlay -o lowerdir=/host,upperdir=/over/upper,workdir=/over/work over /root || give_up "no overlay"
for folder in proc sys dev; do
    mount -o bind /$folder /root/$folder
done
mkdir -p /root/dev/pts /root/dev/shm /root/lab
mount -t devpts devpts /root/dev/pts
# What tools/chaos starves processors by.
mount -t cgroup2 cgroup /root/sys/fs/cgroup
echo +cpu >/root/sys/fs/cgroup/cgroup.subtree_control
for folder in dev/shm run; do
    mount -t tmpfs -o mode=1777 tmpfs /root/$folder
done
mount -t 9p -o trans=virtio,version=9p2000.L,cache=mmap,msize=524288 lab /root/lab || give_up "no /lab"
for link in fd:fd stdin:fd/0 stdout:fd/1 stderr:fd/2; do
    ln -s "/proc/self/${link#*:}" "/dev/${link%:*}"
done
say "the host's files are there"

echo 1 >/proc/sys/vm/overcommit_memory # address sanitizer reserves terabytes
ulimit -c 0
ulimit -n 65536
ulimit -l "$(option memlock)"
address=$(option address)
hostname "machine${address##*.}" 2>/dev/null || hostname machine
ip link set lo up
ip addr add "$address" dev eth0
ip link set eth0 mtu "$(option mtu)" up
netdev=eth0
rail=$(option rail)
if [ -n "$rail" ]; then
    netdev=eth1
    ip addr add "$rail" dev eth1
    ip link set eth1 mtu "$(option mtu)" up
fi
chroot /root rdma link add rxe0 type rxe netdev "$netdev" || give_up "no rxe0"
gid=/sys/class/infiniband/rxe0/ports/1/gids/1
tries=0
until grep -q '0000:0000:0000:0000:0000:ffff' $gid; do
    tries=$((tries + 1))
    [ $tries -lt 100 ] || give_up "rxe0 has no IPv4 GID at index 1"
    usleep 50000
done
say "its network is up"
dmesg -n 4 # from here on only what is wrong: what commands make the kernel say would slow them down

# serve DEVICE: one job after another. The host writes a job's name, and its script is in /lab/jobs. Answered are
# the job's process group, what it prints, and a last line with its exit code. Whoever is left in its group ends.
serve() {
    exec 3<>"$1"
    while read -r job <&3; do
        # shellcheck disable=SC2016 # the shell inside expands them
        setsid chroot /root /bin/sh -c 'echo $$; exec /bin/sh "$0"' "/lab/jobs/$job" </dev/null >&3 2>&1 3>&- &
        wait $!
        code=$?
        kill -9 -$! 2>/dev/null
        printf '\001%s %d\n' "$job" $code >&3
    done
}

for port in /sys/class/virtio-ports/*; do
    case $(cat "$port/name") in
    line*) serve "/dev/${port##*/}" & ;;
    esac
done
say "it takes commands"
while :; do
    wait # for orphans, for ever
    sleep 1
done
