#!/usr/bin/env bash
# lint.sh FOLDER [all]: formatting, clang-tidy, shellcheck and the rules of the house. ./build.sh lint runs it after it has
# made FOLDER/compile_commands.json. Every complaint is printed; the exit code is 1 if there was one. clang-tidy's static
# analyzer takes many times as long as all its other checks: it reads the files that changed last, and looks at a fifth of the
# states of a function that it would look at; or, with all, it reads every file and looks at all that it would.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit

folder=$1
scope=${2-}
recent=10 # commits whose files the slow analyzer reads, the newest first; with "all" it reads every file
most_analyzed=20 # files that it reads without "all", at about a second of a core each
states=40000 # that it looks at there; it goes on to 225,000 by itself, for three times as long
most_fragments=0 # comments that are fragments (tests/comments.py)
bad=0

complain() {
    printf 'lint: %s\n' "$*" >&2
    bad=1
}

mapfile -t sources < <(git ls-files --cached --others --exclude-standard -- '*.c' '*.h' '*.cu' '*.cuh' | sort)
mapfile -t scripts < <(git ls-files --cached --others --exclude-standard -- '*.sh' '.ci/run' | sort)

# forbid FOLDER PATTERN WHY: no #include line of the folder matches; '' is the whole tree.
forbid() {
    local found
    found=$(printf '%s\n' "${sources[@]}" | grep -E "^$1" | xargs -r grep -HnE "^ *# *include *$2")
    if [ -n "$found" ]; then
        complain "$3"
        printf '%s\n' "$found" >&2
    fi
}

# The core is pure, but for the one room that wraps the operating system for wings and tools.
forbid 'core/([^o]|o[^s])' '<(sys/.*|net.*|arpa/.*|unistd|fcntl|poll|pthread|threads|time|dirent|signal|semaphore|spawn|dlfcn|sched|sys)\.h>' \
    "core is pure: no sockets, files, threads, clocks:"
forbid '' '"([^"]*/)?\.\.?/' "includes are written from the root:"
python3 tests/rooms.py || bad=1
python3 tests/parts.py || bad=1
python3 tests/circles.py || bad=1
python3 tests/pages.py || bad=1
python3 tests/comments.py --most "$most_fragments" ||
    complain "more than $most_fragments comments are fragments: python3 tests/comments.py --list prints them"

for file in "${sources[@]}"; do
    case $file in
    *.h | *.cuh)
        guard=GODWIT_$(printf '%s' "$file" | tr 'a-z/.' 'A-Z__')
        short=${guard/GODWIT_TOOLS_/GODWIT_}
        if ! grep -qE "^#ifndef ($guard|$short)\$" "$file"; then
            complain "$file: its guard should be $guard"
        fi
        ;;
    esac
done

generated=$(git ls-files | grep -E '(^|/)(build[^/.]*|CMakeFiles|__pycache__)/|\.(o|a|so|orig|rej|swp|pyc|log)$')
if [ -n "$generated" ]; then
    complain "files that a program made are tracked:"
    printf '%s\n' "$generated" >&2
fi

echo "clang-format: ${#sources[@]} files"
clang-format --dry-run -Werror "${sources[@]}" || bad=1

echo "shellcheck: ${#scripts[@]} scripts"
shellcheck "${scripts[@]}" || bad=1

# What the build compiles, but for tests and err.c, which defines what analyzer.h redefines.
mapfile -t units < <(sed -n "s#^ *\"file\": \"$PWD/\(.*\.c\)\".*#\1#p" "$folder/compile_commands.json" |
    grep -vE '^(tests/|build[^/]*/|core/base/err\.c)' | sort -u)
mapfile -t touched < <({ git diff --name-only HEAD; git log -"$recent" --name-only --format=; } 2>/dev/null |
    awk 'NF && !seen[$0]++' | grep -xF -f <(printf '%s\n' "${units[@]}") | head -n "$most_analyzed")
analyzed=() others=()
for unit in "${units[@]}"; do
    if [ "$scope" = all ] || [[ " ${touched[*]} " == *" $unit "* ]]; then analyzed+=("$unit"); else others+=("$unit"); fi
done

# tidy MOST UNIT... reads the files by clang-tidy with the ${options[@]}, so many by a process at most.
tidy() {
    local most=$1
    shift
    if printf '%s\n' "$@" | xargs -r -P "$(nproc)" -n "$most" clang-tidy -p "$folder" --quiet \
        --extra-arg=-Wno-unknown-warning-option --extra-arg=-include --extra-arg=tests/analyzer.h \
        "${options[@]}" >"$folder/tidy.log" 2>/dev/null; then
        return
    fi
    grep -v '^$' "$folder/tidy.log" >&2
    complain "clang-tidy is not content"
}

echo "clang-tidy: ${#units[@]} files, ${#analyzed[@]} of them by its analyzer"
if [ ${#units[@]} -eq 0 ]; then
    complain "$folder/compile_commands.json names no file of this tree"
fi
options=()
if [ "$scope" != all ]; then
    for word in -Xclang -analyzer-config -Xclang "max-nodes=$states"; do options+=("--extra-arg=$word"); done
fi
if [ ${#analyzed[@]} -gt 0 ]; then tidy 1 "${analyzed[@]}"; fi
options=('--checks=-clang-analyzer-*')
if [ ${#others[@]} -gt 0 ]; then tidy 8 "${others[@]}"; fi

if [ $bad -eq 0 ]; then
    echo "lint: clean"
fi
exit $bad
