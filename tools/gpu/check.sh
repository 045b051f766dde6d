#!/usr/bin/env bash
# Runs all checks that need a GPU: builds godwit if needed, tests, measures, and prints one table. Exit code 1 if
# anything failed. On a machine without a GPU the checks that need one are skipped and listed as skipped; a GPU that
# cannot be used is a failure.
#
#   tools/gpu/check.sh [--build FOLDER] [--seconds N]   FOLDER: the folder of the build (default build)
#   tools/gpu/check.sh --strict [...]                   checks that are skipped although there is a GPU have failed,
#                                                       but for those that need several GPUs; compute-sanitizer
#                                                       runs whole jobs, too
#   tools/gpu/check.sh --as-is [...]                    use the build as it is: do not bring it up to date
#   tools/gpu/check.sh --pack FOLDER                    make a folder to copy to a machine that cannot build: it has
#                                                       this script, and the build with its libraries as
#                                                       build.tar.gz, which the script unpacks there
#
# The checks take at most N seconds (default 450; 1800 with --strict), and a build is not counted. Checks for which the
# time is too short are listed as not reached. No setting of a GPU is changed. PyTorch is measured as well if it is
# installed; GODWIT_TEST_DATA names a folder with text/shakespeare.txt, on which models of both are trained (--pack
# packs that file, too).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

folder=build
seconds=
strict=()
as_is=
pack=
SECONDS=0 # bash counts the seconds from here on
built=0   # the seconds that the build took
data=${GODWIT_TEST_DATA:-$PWD/data} # the texts on which models are compared; a packed tree has its own
text=text/shakespeare.txt

usage() {
    sed -n '2,18s/^# \{0,1\}//p' tools/gpu/check.sh
}

die() {
    printf 'check.sh: %s\n' "$*" >&2
    exit 2
}

# build: builds godwit and its tests, as far as they are not up to date. A packed tree has no sources: its build is
# unpacked, and again after it was packed anew.
build() {
    local tool
    if [ -n "$as_is" ]; then
        [ -x "$folder/godwit" ] || die "there is no $folder/godwit: build it, or leave --as-is out"
        return 0
    fi
    if [ -f build.tar.gz ] && [ "$folder" = "$PWD/build" ]; then
        if [ ! -x "$folder/godwit" ] || ! cmp -s build.tar.gz.unpacked <(sha256sum build.tar.gz); then
            unpack
        fi
        return 0
    fi
    for tool in cmake ninja; do
        command -v "$tool" >/dev/null || die "$folder/godwit cannot be built, as $tool is missing: install it, or see --as-is and --pack"
    done
    printf 'building in %s: this takes some minutes at most\n' "$folder"
    local begun=$SECONDS
    mkdir -p "$folder"
    if ! { configure && ninja -C "$folder" all; } >"$folder/check.log" 2>&1; then
        cat "$folder/check.log" >&2
        die "the build failed"
    fi
    built=$((SECONDS - begun))
}

# configure: a build that exists keeps its options.
configure() {
    [ -f "$folder/build.ninja" ] || cmake -S . -B "$folder" -G Ninja -DCMAKE_BUILD_TYPE=Release
}

# unpack: unpacks what pack has made, as a whole or not at all.
unpack() {
    local part
    part=$(mktemp -d "$PWD/unpack.XXXXXX") || die "$PWD must be writable, to unpack build.tar.gz"
    tar -xzf build.tar.gz -C "$part" || die "build.tar.gz cannot be unpacked"
    rm -rf "$folder"
    mv "$part/build" "$folder"
    rmdir "$part"
    sha256sum build.tar.gz >build.tar.gz.unpacked
}

# gpu_tests: the test programs that use a GPU.
gpu_tests() {
    find "$folder/tests" -maxdepth 1 -type f -perm -u+x \( -name 'test_kernels_cuda*' -o -name 'test_net_nccl*' \
        -o -name 'test_tools_watch_gpu*' -o -name 'test_tools_work_gpu*' -o -name 'test_gpu_*' \
        -o -name 'test_tools_options_compute' \) ! -name 'test_gpu_fake_*' ! -name 'test_gpu_flock_*' | sort
}

# libraries_of PROGRAM...: the files of the shared libraries that the programs need, but for those of the C library
# and the driver, which belong to the machine.
libraries_of() {
    ldd "$@" 2>/dev/null | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u |
        grep -vE '/(libc|libm|libdl|librt|libpthread|libresolv|libcuda|libnvidia-[a-z]+)\.so' || true
}

# pack FOLDER: makes a tree that runs on a machine that cannot build. It is compressed: half of it would be OpenBLAS.
pack() {
    local to=$1 tests
    [ ! -e "$to" ] || die "$to exists already: name a folder that does not"
    mapfile -t tests < <(gpu_tests)
    mkdir -p "$to/build/tests" "$to/build/lib" "$to/tools/gpu" "$to/tools/lab" "$to/tools/bench/pytorch"
    cp tools/gpu/check.sh tools/gpu/*.py "$to/tools/gpu/"
    cp tools/lab/flock.py "$to/tools/lab/"
    mkdir -p "$to/tools/python" "$to/tools/examples"
    cp -r tools/python/godwit "$to/tools/python/"
    cp -r tools/examples/python "$to/tools/examples/"
    find "$to/tools" -name __pycache__ -prune -exec rm -r {} +
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

# library_path: LD_LIBRARY_PATH of godwit and its tests. It has the packed libraries first. At its end are the folders
# of those CUDA libraries in Python's packages that are found nowhere else: those of the system come first, as users
# have them. PyTorch does not get this path, as it brings its own libraries.
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
    found = {}  # a row of the table will say why
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
        [ $# -ge 2 ] || die "$1 needs a value: see --help"
        case $1 in
        --build) folder=$2 ;;
        --pack) pack=$2 ;;
        --seconds)
            [[ $2 =~ ^[0-9]+$ ]] || die "--seconds needs a whole number, not '$2'"
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
    *) die "there is no option '$1': see --help" ;;
    esac
done

case $folder in
/*) ;;
*) folder=$PWD/$folder ;;
esac
command -v python3 >/dev/null || die "python3 is missing: install it"
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
