#!/usr/bin/env bash
# Builds, tests and shows Godwit. ./build.sh help lists what it can do.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

build_packages=(cmake ninja-build gcc libc6-dev pkg-config python3 libcriterion-dev libsodium-dev
    libopenblas-serial-dev libmicrohttpd-dev zlib1g-dev libzstd-dev libjansson-dev libpcre2-dev libutf8proc-dev
    libncurses-dev libibverbs-dev librdmacm-dev)
if command -v nvcc >/dev/null || [ -x /usr/local/cuda/bin/nvcc ]; then
    build_packages+=(g++) # nvcc compiles by it; without one the build has no CUDA
fi
# Virtual machines with Soft-RoCE, and what tries and measures it in them.
lab_packages=(qemu-system-x86 busybox-static cpio kmod iproute2 util-linux rdma-core ibverbs-providers
    ibverbs-utils rdmacm-utils perftest)
lint_packages=(git clang-format clang-tidy shellcheck)
fuzz_packages=(clang libclang-rt-14-dev)
plot_packages=(gnuplot-nox) # draws what godwit plot shows
shell_packages=(zsh fish) # shells whose completions are tested beside bash's
bench_packages=(openmpi-bin libopenmpi-dev) # what the all-reduce is compared with

misused() {
    printf "build.sh: %s; './build.sh help' lists the commands\n" "$*" >&2
    exit 2
}

usage() {
    cat <<'END'
usage: ./build.sh [COMMAND]

  (none)     install what is missing, make a release build: build/godwit
  demo       four peers on this machine, two of them killed; under half a minute
  wheel [--gpu]
             make dist/: a wheel for pip install, which has the program, its
             libraries and the Python module in it, and an sdist. With --gpu the
             program computes on NVIDIA's GPUs too (with nvcc)
  package [--gpu]
             make dist/: a Debian package, and a tar ball with its libraries for
             every Linux since 2020. With --gpu the former computes on GPUs too
  test       build and run the tests, a short search of all fuzzers among them
  test all   the same, and the suites that take too long for every change;
             before a release
  lint       formatting, clang-tidy, shellcheck, and the house's rules
  lint all   the same, with clang-tidy's slow analyzer on every file; before a
             release
  sanitize [WHAT]
             run the tests (whose names match WHAT, such as lab or net/) under
             address, undefined-behaviour and thread sanitizers
  fuzz [--minutes N] [--jobs N] [TARGET...]
             look for inputs that break a parser (10 minutes for all together,
             on all processors)
  sim [--minutes N] [--seed S]
             new seeds of the simulator on all cores; shrinks what fails, and
             says which branches of core/ were taken (10 minutes)
  coverage   which branches of core/ its tests, the simulator's, the model
             check and the fuzz targets take, and which never (13 minutes,
             3 GB of memory); fails under 95 %, and where the model check finds
             a fork at a size that is too large for the tests
  chaos [OPTION...]
             a job on real processes while everything goes wrong (as root);
             fails when its bytes differ, steps were lost, or a process
             crashed or leaks. chaos --help lists its options; chaos --why
             holds what 'godwit why' tells of such runs against their faults;
             chaos --queue hurts a standing flock that has many jobs
  bench      measure what Godwit promises, as tables (about 40 minutes;
             'bench quick': 10)
  lab [N] [-- COMMAND]
             N virtual machines with RDMA devices: each runs COMMAND, or you
             look around
  clean      remove every build folder
  help       this

Packages are Debian's. As root, or where sudo asks for no password, they are
installed; otherwise the line that installs them is printed.
END
}

say() { printf '%s\n' "$*"; }
die() {
    printf 'build.sh: %s\n' "$*" >&2
    exit 1
}

# need PACKAGE...: all of them are installed, or this script ends.
need() {
    install "$@" || die "nothing to be done without them"
}

# install PACKAGE...: installs those that are missing; where it cannot, it prints the line that does, and returns 1.
install() {
    if ! command -v dpkg-query >/dev/null; then
        return 0 # not Debian: CMake will say which library it misses
    fi
    local missing=() package
    for package in "$@"; do
        dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
    done
    if [ ${#missing[@]} -eq 0 ]; then
        return 0
    fi
    if ! as_root true 2>/dev/null; then
        say "These packages are missing. Install them and run this again:" >&2
        say "sudo apt-get install --no-install-recommends ${missing[*]}" >&2
        return 1
    fi
    say "installing ${missing[*]}"
    alone apt_install "${missing[@]}" || {
        say "apt could not install ${missing[*]}" >&2
        return 1
    }
}

# alone COMMAND...: runs the command under a lock, so that several runs of this script use apt one at a time.
alone() {
    (flock 9 && "$@") 9<build.sh
}

# as_root COMMAND...: runs the command as root, by sudo where that asks for no password.
as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    else
        sudo -n "$@"
    fi
}

# apt_install PACKAGE...: installs with apt's present lists, or else with new ones.
apt_install() {
    local get=(as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq)
    "${get[@]}" install -y --no-install-recommends "$@" >/dev/null || {
        "${get[@]}" update && "${get[@]}" install -y --no-install-recommends "$@" >/dev/null
    }
}

# build FOLDER TARGET [CMake option...]: configures and builds; the output is shown only if the build fails.
build() {
    local folder=$1 target=$2 log
    shift 2
    if [ ! -f "$folder/build.ninja" ]; then
        say "building in $folder/ for the first time: some minutes on two cores"
    fi
    mkdir -p "$folder"
    log=$folder/build.log
    if ! { cmake -S . -B "$folder" -G Ninja "$@" && ninja -C "$folder" "$target"; } >"$log" 2>&1; then
        cat "$log" >&2
        die "the build in $folder failed"
    fi
}

# release TARGET: builds the target in build/, optimized.
release() {
    need "${build_packages[@]}"
    build build "$1" -DCMAKE_BUILD_TYPE=Release
}

# suites_in FOLDER PATTERN [CTest option...]: the names of CTest's suites that match.
suites_in() {
    local folder=$1 pattern=$2
    shift 2
    (cd "$folder" && ctest -N -R "$pattern" "$@" | sed -n 's/^ *Test *#[0-9]*: //p')
}

# How many suites run at a time. Those of peers and of virtual machines wait most of their time (tests/CMakeLists.txt), and
# the others need every processor meanwhile.
parallel=$(($(nproc) + 5))

# run_tests FOLDER PATTERN [CTest option...]: CTest on the suites whose names match, then what Criterion wrote for each
# (TAP) decides what passed. The last line is "N passed, N failed, N skipped".
run_tests() {
    local folder=$1 pattern=$2 suites
    shift 2
    unset PYTHONDONTWRITEBYTECODE # else each of hundreds of processes compiles PyTorch, or all of transformers, anew
    rm -rf "$folder/tap" "$folder/Testing/Temporary/LastTestsFailed.log"
    mkdir -p "$folder/tap"
    (cd "$folder" && ctest -R "$pattern" --output-on-failure --parallel "$parallel" \
        --resource-spec-file "$PWD/resources.json" "$@") || true
    suites=$(suites_in "$folder" "$pattern" "$@")
    local failed_suites=/dev/null
    if [ -f "$folder/Testing/Temporary/LastTestsFailed.log" ]; then
        failed_suites=$folder/Testing/Temporary/LastTestsFailed.log
    fi
    say "$suites" | awk -v folder="$folder" -v failed_suites="$failed_suites" -f tests/count.awk
}

run_test_command() {
    release all
    { install "${lab_packages[@]}" && lab_image; } || say "no lab of virtual machines: its tests will be skipped"
    install "${plot_packages[@]}" || say "no gnuplot: what draws with it is not tested"
    install "${shell_packages[@]}" || say "no zsh or fish: the completions of that shell are not tested"
    local fuzzers_build='' options=()
    if [ "${1-}" != all ]; then
        options=(-LE release)
    elif can_fuzz; then
        # Beside the other tests. Whoever wants the fuzzers waits for the lock, which all processes of their build hold.
        mkdir -p build-fuzz
        exec 7>build-fuzz/lock
        flock 7
        (renice -n 10 "$BASHPID" >/dev/null && fuzzers) &
        fuzzers_build=$!
        exec 7>&-
        export GODWIT_FUZZERS=$PWD/build-fuzz/fuzz
    else
        say "no clang with libFuzzer: its searches will be skipped"
    fi
    local bad=0
    run_tests build . "${options[@]}" || bad=1
    if [ -n "$fuzzers_build" ] && ! wait "$fuzzers_build"; then bad=1; fi
    return $bad
}

sanitize() {
    need "${build_packages[@]}" "${lab_packages[@]}"
    local bad=0 found=0 parallel=$(($(nproc) + 2)) # what sanitizers slow down keeps to times with fewer beside it
    say "== address and undefined behaviour"
    UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 sanitize_with build-asan address,undefined "$@" || bad=1
    say "== threads"
    sanitize_with build-tsan thread "$@" || bad=1
    [ $found -eq 1 ] || die "sanitize: nothing was tested: no suite has '${1-}' in its name"
    return $bad
}

# sanitize_with FOLDER SANITIZERS [PATTERN]: builds and runs the suites whose names match. Sets `found` to 1 if there are
# any, as not every sanitizer has all suites.
sanitize_with() {
    local folder=$1 options=("-DGODWIT_SANITIZE=$2" -DCMAKE_BUILD_TYPE=RelWithDebInfo) pattern=${3:-.}
    cmake -S . -B "$folder" -G Ninja "${options[@]}" >/dev/null || die "$folder cannot be configured"
    if [ -z "$(suites_in "$folder" "$pattern")" ]; then
        say "no suites with '$pattern' in their names"
        return 0
    fi
    found=1
    build "$folder" all "${options[@]}"
    run_tests "$folder" "$pattern"
}

lint() {
    need "${build_packages[@]}" "${lint_packages[@]}"
    cmake -S . -B build-lint -G Ninja -DGODWIT_TESTS=OFF >/dev/null # clang-tidy reads its compile_commands.json
    ./tests/lint.sh build-lint "$@"
}

fuzzers() {
    build build-fuzz fuzz -DCMAKE_C_COMPILER=clang -DGODWIT_FUZZ=ON -DGODWIT_TESTS=OFF -DGODWIT_CUDA=OFF \
        -DGODWIT_SANITIZE=address,undefined -DCMAKE_BUILD_TYPE=RelWithDebInfo
}

# Whether there is a clang that comes with libFuzzer and the sanitizers.
can_fuzz() {
    install "${fuzz_packages[@]}" &&
        clang -fsanitize=fuzzer,address,undefined -x c -o /dev/null - 2>/dev/null \
            <<<'int LLVMFuzzerTestOneInput(const char *b, unsigned long n) { return b == 0 && n > 0; }'
}

fuzz() {
    need "${build_packages[@]}" "${fuzz_packages[@]}"
    fuzzers
    exec python3 tests/fuzz/fuzz.py build-fuzz/fuzz build-fuzz/corpus "$@"
}

# count_branches TARGET: builds the target in build-cov/, which counts the branches of core/ that are taken, and clears the
# counts.
count_branches() {
    need "${build_packages[@]}"
    build build-cov "$1" -DGODWIT_COVERAGE=ON -DGODWIT_CUDA=OFF -DCMAKE_BUILD_TYPE=RelWithDebInfo
    find build-cov -name '*.gcda' -delete
}

# Coverage runs the same tests and seeds each time, so that it shows what a change adds or leaves untested.
coverage() {
    count_branches runs_core
    local bad=0
    run_tests build-cov '^(core|sim|fuzz)/' || bad=1
    build-cov/godwit sim --seeds 10001..10100 || bad=1 # of which the suites have none
    release godwit
    local size
    for size in 3x4 4x3=1; do # too much for the tests: some four minutes, 2.7 GB
        build/godwit sim --forks $size || bad=1
    done
    python3 tests/coverage.py build-cov --list --least 95 || bad=1
    return $bad
}

# Runs new seeds for the given time, a fifth of it those of a standing flock: four fifths at full speed, the rest in a build
# that counts branches.
sim() {
    local minutes=10 seed=$(($(date +%s) * 1000)) counted bad=0
    while [ $# -gt 0 ]; do
        case $1 in
        --minutes) minutes=${2-} ;;
        --seed) seed=${2-} ;;
        *) misused "sim: '$1' is neither --minutes N nor --seed S" ;;
        esac
        if ! [[ ${2-} =~ ^[0-9]+$ ]] || [ "$2" -eq 0 ]; then misused "sim $1: a number is expected"; fi
        shift 2
    done
    minutes=$((10#$minutes)) seed=$((10#$seed)) # 08 is no octal number
    count_branches godwit
    counted=$(((minutes + 4) / 5))
    if [ "$minutes" -gt "$counted" ]; then
        # It is optimized across files: a seed takes a fifth less time, but every program's link takes half a minute.
        build build-sim godwit -DCMAKE_BUILD_TYPE=Release -DCMAKE_INTERPROCEDURAL_OPTIMIZATION=ON -DGODWIT_TESTS=OFF \
            -DGODWIT_CUDA=OFF
        local flock=$(((minutes - counted + 3) / 4))
        build-sim/godwit sim --flock --minutes "$flock" --seed "$seed" || bad=1
        if [ "$minutes" -gt $((counted + flock)) ]; then
            build-sim/godwit sim --minutes $((minutes - counted - flock)) --seed "$seed" || bad=1
        fi
    fi
    say "== with branches counted"
    build-cov/godwit sim --minutes "$counted" --seed $((seed + 500000000)) || bad=1
    build-cov/godwit sim --flock --seeds "$((seed + 500000000))..$((seed + 500000199))" || bad=1
    python3 tests/coverage.py build-cov
    return $bad
}

chaos() {
    need python3 iproute2 util-linux nftables
    release chaos
    if [[ ${1-} == --why ]]; then
        shift
        exec python3 tools/chaos/why.py --binary build/godwit "$@"
    fi
    if [[ ${1-} == --queue ]]; then
        shift
        exec python3 tools/chaos/queue_chaos.py --binary build/godwit "$@"
    fi
    exec python3 tools/chaos/chaos.py --binary build/godwit "$@"
}

# wheel_tools: a Python with what makes wheels, in build-wheel/tools.
wheel_tools() {
    local place=build-wheel/tools list=tools/python/requirements.txt
    if cmp -s "$list" "$place/installed.txt"; then return 0; fi
    python3 -c 'import ensurepip' 2>/dev/null || need python3-venv
    rm -rf "$place"
    { python3 -m venv "$place" && "$place/bin/pip" --quiet --disable-pip-version-check install -r "$list"; } >&2 ||
        die "wheel: the packages of $list cannot be installed from PyPI"
    cp "$list" "$place/installed.txt"
}

# copy_tree FOLDER: a copy of the tree as git knows it, or of all of it in an sdist, with pyproject.toml at its top. It says
# its commit, without git.
copy_tree() {
    local version
    version=$(sed -n 's/^project(godwit VERSION \([0-9.]*\) .*/\1/p' CMakeLists.txt)
    mkdir -p "$1"
    if [ -e .git ]; then
        git ls-files -z | while IFS= read -r -d '' file; do
            if [ -e "$file" ]; then printf '%s\0' "$file"; fi
        done | tar --null -T - -c | tar -x -C "$1"
    else
        tar -c --exclude=__pycache__ --exclude=./build --exclude='./build-*' --exclude=./dist --exclude=./PKG-INFO . | tar -x -C "$1"
    fi
    sed "s/@VERSION@/$version/" tools/python/pyproject.toml.in >"$1/pyproject.toml"
    cmake "-DSOURCE=$PWD" -P tools/commit.cmake >"$1/tools/commit.txt"
}

# The wheel is made of the sdist, in folders of its own; its bytes depend on the tree, its commit, the system's packages
# and requirements.txt alone (without --gpu).
wheel() {
    export GODWIT_WHEEL_GPU=0
    if [ "${1-}" = --gpu ]; then GODWIT_WHEEL_GPU=1; fi
    need "${build_packages[@]}" binutils
    local work=$PWD/build-wheel made
    mkdir -p build-wheel
    exec 7>build-wheel/lock
    flock 7
    wheel_tools
    rm -rf build-wheel/{source,made,repaired}
    copy_tree build-wheel/source
    say "building the program from a clean copy of the tree: some minutes on two cores; build-wheel/build.log tells how far it is"
    export SOURCE_DATE_EPOCH=1580601600 # of all files in the packages
    local PATH=$work/tools/bin:$PATH # auditwheel calls patchelf
    python -m build --no-isolation --outdir build-wheel/made build-wheel/source >build-wheel/build.log 2>&1 || {
        cat build-wheel/build.log >&2
        die "the wheel cannot be built"
    }
    auditwheel repair --wheel-dir build-wheel/repaired build-wheel/made/*.whl >build-wheel/auditwheel.log 2>&1 || {
        cat build-wheel/auditwheel.log >&2
        die "auditwheel cannot make the wheel one for other machines"
    }
    mv build-wheel/made/*.tar.gz build-wheel/repaired
    twine check --strict build-wheel/repaired/* >build-wheel/twine.log 2>&1 || {
        cat build-wheel/twine.log >&2
        die "the metadata of the packages are not as an index wants them"
    }
    mkdir -p dist
    rm -f dist/godwit-*
    mv build-wheel/repaired/* dist
    rm -rf build-wheel/{source,made,repaired}
    for made in dist/godwit-*; do say "built $made"; done
    say "try it: python3 -m venv env && env/bin/pip install dist/*.whl && env/bin/godwit --help"
}

# Packages of the system. Each is built of a clean copy of the tree, in folders of its own; the bytes depend on the tree, its
# commit and the system's packages alone (without --gpu).
package() {
    local gpu=OFF options work=$PWD/build-package tree made
    if [ "${1-}" = --gpu ]; then gpu=ON; fi
    need "${build_packages[@]}" binutils dpkg-dev mmdebstrap debian-archive-keyring patchelf xz-utils
    tree=$work/source made=$work/debian
    mkdir -p "$work" dist
    exec 7>"$work/lock"
    flock 7
    rm -rf "$tree" "$made"
    copy_tree "$tree"
    SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null) || SOURCE_DATE_EPOCH=1580601600
    export SOURCE_DATE_EPOCH
    umask 022
    options=(-S "$tree" -G Ninja -DCMAKE_BUILD_TYPE=Release -DGODWIT_TESTS=OFF "-DGODWIT_CUDA=$gpu"
        "-DCMAKE_C_FLAGS=-ffile-prefix-map=$tree=. -ffile-prefix-map=$made=. -D_FORTIFY_SOURCE=2 -fstack-protector-strong"
        "-DCMAKE_EXE_LINKER_FLAGS=-Wl,-z,now")
    say "building the Debian package: some minutes on two cores; $made/build.log tells how far it is"
    mkdir -p "$made"
    logged "$made/build.log" cmake -B "$made" "${options[@]}" -DGODWIT_DEBIAN=ON -DCMAKE_INSTALL_PREFIX=/usr \
        -DCMAKE_INSTALL_SYSCONFDIR=/etc -DGODWIT_ZSH_COMPLETIONS=share/zsh/vendor-completions
    logged "$made/build.log" ninja -C "$made" godwit
    logged "$made/build.log" cpack --config "$made/CPackConfig.cmake"
    rm -f dist/godwit_*.deb dist/godwit-*-linux-*.tar.xz
    mv "$made"/package/*.deb dist
    say "building the tar ball; $work/tarball.log tells how far it is"
    rm -f "$work/tarball.log"
    logged "$work/tarball.log" tools/package/tarball.sh "$tree" "$work/tarball" dist
    rm -rf "$tree" "$made" "$work/tarball"
    for made in dist/godwit_*.deb dist/godwit-*-linux-*.tar.xz; do say "built $made"; done
}

# logged FILE COMMAND...: adds the output to FILE, and shows it if the command fails, which ends this script.
logged() {
    local log=$1
    shift
    "$@" >>"$log" 2>&1 || {
        cat "$log" >&2
        die "'$*' failed"
    }
}

demo() {
    release godwit
    exec python3 tools/lab/demo.py build/godwit
}

bench() {
    need "${bench_packages[@]}"
    release godwit
    exec python3 tools/lab/bench.py build/godwit "$@"
}

# Makes the lab's kernel and its initramfs in the lab's cache.
lab_image() {
    python3 tools/lab/image.py || {
        say "apt's lists may be missing or old: fetching them"
        alone as_root apt-get update -qq && python3 tools/lab/image.py
    }
}

lab() {
    need python3 "${lab_packages[@]}"
    lab_image || die "no lab without its image"
    exec python3 tools/lab/lab.py "$@"
}

command=${1-build}
case $command in
build | demo | coverage | clean | help)
    [ $# -le 1 ] || misused "'$command' takes no argument; what is '$2'?"
    ;;
wheel | package)
    [ $# -eq 1 ] || [ "$*" = "$command --gpu" ] || misused "'$command' takes no argument but '--gpu'; what is '${*:2}'?"
    ;;
test | lint)
    [ $# -eq 1 ] || [ "$*" = "$command all" ] || misused "'$command' takes no argument but 'all'; what is '$2'?"
    ;;
esac
case $command,${2-} in
sanitize,--help | fuzz,--help | sim,--help | lab,--help) # the others tell more, or have nothing to tell
    usage
    exit
    ;;
esac
case $command in
build)
    release godwit
    say "built build/godwit; try ./build.sh demo, or build/godwit --help"
    ;;
demo) demo ;;
wheel) wheel "${2-}" ;;
package) package "${2-}" ;;
test) run_test_command "${2-}" ;;
lint)
    shift
    lint "$@"
    ;;
fuzz)
    shift
    fuzz "$@"
    ;;
sanitize)
    shift
    sanitize "$@"
    ;;
sim)
    shift
    sim "$@"
    ;;
coverage) coverage ;;
chaos)
    shift
    chaos "$@"
    ;;
bench)
    shift
    bench "$@"
    ;;
lab)
    shift
    lab "$@"
    ;;
clean) rm -rf build build-asan build-tsan build-fuzz build-cov build-lint build-sim build-wheel build-package dist ;;
help | --help | -h) usage ;;
*) misused "there is no command '$command'" ;;
esac
