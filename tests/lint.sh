#!/usr/bin/env bash
# lint.sh FOLDER: formatting, clang-tidy, shellcheck and the rules of the house. Run by ./build.sh lint, which makes
# FOLDER/compile_commands.json first. Every complaint is printed; exit code 1 if there was one.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit

folder=$1
most_lines=900 # of a file
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
    found=$(printf '%s\n' "${sources[@]}" | grep "^${1:+$1/}" | xargs -r grep -HnE "^ *# *include *$2")
    if [ -n "$found" ]; then
        complain "$3"
        printf '%s\n' "$found" >&2
    fi
}

# Dependencies point down only: tools -> net, kernels, checkpoint -> core. The core is pure.
forbid core '"(net|kernels|checkpoint|tools)/' "core includes from above:"
forbid core '<(sys/.*|net.*|arpa/.*|unistd|fcntl|poll|pthread|threads|time|dirent|signal|semaphore|spawn|dlfcn|sched|sys)\.h>' \
    "core is pure: no sockets, files, threads, clocks:"
forbid net '"(kernels|checkpoint|tools)/' "a wing includes another or from above:"
forbid kernels '"(net|checkpoint|tools)/' "a wing includes another or from above:"
forbid checkpoint '"(net|kernels|tools)/' "a wing includes another or from above:"
forbid '' '"([^"]*/)?\.\.?/' "includes are written from the root:"

for file in "${sources[@]}"; do
    lines=$(wc -l <"$file")
    if [ "$lines" -gt $most_lines ]; then
        complain "$file: $lines lines; $most_lines is the most"
    fi
done

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
echo "clang-tidy: ${#units[@]} files"
tidy=(clang-tidy -p "$folder" --quiet --extra-arg=-Wno-unknown-warning-option --extra-arg=-include
    --extra-arg=tests/analyzer.h)
if [ ${#units[@]} -eq 0 ]; then
    complain "$folder/compile_commands.json names no file of this tree"
elif ! printf '%s\n' "${units[@]}" | xargs -P "$(nproc)" -n 1 "${tidy[@]}" >"$folder/tidy.log" 2>/dev/null; then
    grep -v '^$' "$folder/tidy.log" >&2
    complain "clang-tidy is not content"
fi

if [ $bad -eq 0 ]; then
    echo "lint: clean"
fi
exit $bad
