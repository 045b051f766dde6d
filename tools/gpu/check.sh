#!/usr/bin/env bash
# Everything that needs a GPU, in one go: builds if need be, tests, measures, prints one table. Exit code 1 if
# anything failed. On a machine without a GPU what needs one is skipped, visibly, and the rest is tried; a GPU that is
# there and cannot be used is a failure.
#
#   tools/gpu/check.sh [--build FOLDER] [--seconds N]   FOLDER: where the build is, or goes (build)
#   tools/gpu/check.sh --strict [...]                   what is skipped although there is a GPU has failed, but for
#                                                       what takes several; whole jobs are sanitized, too
#   tools/gpu/check.sh --as-is [...]                    the build is taken as it is, and not brought up to date
#   tools/gpu/check.sh --pack FOLDER                    what to copy to a machine that cannot build: FOLDER then
#                                                       has this script, and the build with its libraries as
#                                                       build.tar.gz, which the script unpacks there
#
# It takes at most N seconds (450; 1800 with --strict), to which those of a build are added; what they are too few for
# is told as not reached. It changes no setting of a GPU. Beside it, where it is installed, PyTorch is measured;
# GODWIT_TEST_DATA names a folder with text/shakespeare.txt, on which models of both are trained (it is packed, too).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

folder=build
seconds=
strict=()
as_is=
pack=
SECONDS=0 # bash counts them from here on
built=0   # of these, what a build has taken
data=${GODWIT_TEST_DATA:-$PWD/data} # what models are compared on; a packed tree has its own
text=text/shakespeare.txt

usage() {
    sed -n '2,16s/^# \{0,1\}//p' tools/gpu/check.sh
}

die() {
    printf 'check.sh: %s\n' "$*" >&2
    exit 2
}

# build: godwit and its tests, of what the sources are now; nothing where they are. A packed tree has no sources,
# and is unpacked again when it was packed again.
build() {
    local tool
    if [ -n "$as_is" ]; then
        [ -x "$folder/godwit" ] || die "there is no $folder/godwit to take as it is"
        return 0
    fi
    if [ -f build.tar.gz ] && [ "$folder" = "$PWD/build" ]; then
        if [ ! -x "$folder/godwit" ] || ! cmp -s build.tar.gz.unpacked <(sha256sum build.tar.gz); then
            unpack
        fi
        return 0
    fi
    for tool in cmake ninja; do
        command -v "$tool" >/dev/null || die "no $tool, to build $folder/godwit: see --as-is and --pack"
    done
    printf 'building in %s what is not up to date: some minutes at most\n' "$folder"
    local begun=$SECONDS
    mkdir -p "$folder"
    if ! { configure && ninja -C "$folder" all; } >"$folder/check.log" 2>&1; then
        cat "$folder/check.log" >&2
        die "the build failed"
    fi
    built=$((SECONDS - begun))
}

# configure: of a build that is there its options stay.
configure() {
    [ -f "$folder/build.ninja" ] || cmake -S . -B "$folder" -G Ninja -DCMAKE_BUILD_TYPE=Release
}

# unpack: what pack has made; whole, or not at all.
unpack() {
    local part
    part=$(mktemp -d "$PWD/unpack.XXXXXX") || die "$PWD must be writable, to unpack build.tar.gz"
    tar -xzf build.tar.gz -C "$part" || die "build.tar.gz cannot be unpacked"
    rm -rf "$folder"
    mv "$part/build" "$folder"
    rmdir "$part"
    sha256sum build.tar.gz >build.tar.gz.unpacked
}

# The test programs that do something on a GPU.
gpu_tests() {
    find "$folder/tests" -maxdepth 1 -type f -perm -u+x \( -name 'test_kernels_cuda*' -o -name 'test_net_nccl*' \
        -o -name 'test_tools_watch_gpu*' -o -name 'test_tools_work_gpu*' -o -name 'test_gpu_*' \
        -o -name 'test_tools_options_compute' \) ! -name 'test_gpu_fake_*' ! -name 'test_gpu_flock_*' | sort
}

# libraries_of PROGRAM...: the files of the shared libraries they need, but for the C library's own, which
# belong to the machine.
libraries_of() {
    ldd "$@" 2>/dev/null | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u |
        grep -vE '/(libc|libm|libdl|librt|libpthread|libresolv|libcuda|libnvidia-[a-z]+)\.so' || true
}

# pack FOLDER: a tree that runs where nothing can be built. Compressed: half of it would be OpenBLAS.
pack() {
    local to=$1 tests
    [ ! -e "$to" ] || die "$to is there already"
    mapfile -t tests < <(gpu_tests)
    mkdir -p "$to/build/tests" "$to/build/lib" "$to/tools/gpu" "$to/tools/lab" "$to/tools/bench/pytorch"
    cp tools/gpu/check.sh tools/gpu/*.py "$to/tools/gpu/"
    cp tools/lab/flock.py "$to/tools/lab/"
    cp tools/bench/pytorch/learning.py "$to/tools/bench/pytorch/"
    if [ -f "$data/$text" ]; then
        mkdir -p "$to/data/${text%/*}"
        cp "$data/$text" "$to/data/$text"
    fi
    cp "$folder/godwit" "$to/build/"
    cp "${tests[@]}" "$to/build/tests/"
    libraries_of "$folder/godwit" "${tests[@]}" | while read -r library; do cp -L "$library" "$to/build/lib/"; done
    strip --strip-unneeded "$to/build/godwit" "$to"/build/tests/* "$to"/build/lib/* 2>/dev/null || true
    tar -cf - -C "$to" build | gzip >"$to/build.tar.gz"
    rm -r "$to/build"
    du -sh "$to"
}

# library_path: where our programs find what is packed with them, and, behind all other places, those of CUDA's
# libraries in Python's packages that they find nowhere else: it is the system's that users have. For them alone:
# PyTorch, beside which they are measured, has its own.
library_path() {
    local path=
    if [ -d "$folder/lib" ]; then
        path=$folder/lib
    fi
    path+=${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    LD_LIBRARY_PATH=${path#:} python3 -c '
import glob, json, os, subprocess, sys, sysconfig
command = [sys.argv[1], "devices", "--gpus", "--json"]
try:
    found = json.loads(subprocess.run(command, capture_output=True, timeout=60).stdout)
except (OSError, ValueError, subprocess.TimeoutExpired):
    found = {}  # what is wrong with it a row will say
path = [os.environ["LD_LIBRARY_PATH"]]
for name, file in (("nccl", "libnccl.so.2"), ("cublaslt", "libcublasLt.so.*")):
    if "version" not in found.get(name, {}):
        places = glob.glob(sysconfig.get_path("purelib") + "/nvidia/*/lib/" + file)
        path += sorted({os.path.dirname(place) for place in places} - set(path))
print(":".join(filter(None, path)), end="")
' "$folder/godwit"
}

while [ $# -gt 0 ]; do
    case $1 in
    --build | --pack | --seconds)
        [ $# -ge 2 ] || die "$1 wants a value"
        case $1 in
        --build) folder=$2 ;;
        --pack) pack=$2 ;;
        --seconds)
            [[ $2 =~ ^[0-9]+$ ]] || die "--seconds wants a whole number"
            seconds=$2
            ;;
        esac
        shift 2
        ;;
    --strict)
        strict=(--strict)
        shift
        ;;
    --as-is)
        as_is=1
        shift
        ;;
    --help | -h)
        usage
        exit 0
        ;;
    *) die "what is '$1'? See --help" ;;
    esac
done

case $folder in
/*) ;;
*) folder=$PWD/$folder ;;
esac
command -v python3 >/dev/null || die "python3 is missing"
build
if [ -n "$pack" ]; then
    pack "$pack"
    exit 0
fi
mapfile -t tests < <(gpu_tests)
if [ -z "$seconds" ]; then
    seconds=450
    [ ${#strict[@]} -eq 0 ] || seconds=1800
fi
path=$(library_path)
seconds=$((seconds + built - SECONDS))
exec python3 tools/gpu/check.py "${strict[@]}" --seconds "$seconds" --library-path "$path" --data "$data" \
    "$folder/godwit" "${tests[@]}"
