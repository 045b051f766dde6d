#!/bin/sh
# Words counted over many files: each task of `godwit map` counts those of one file, and awk merges the counts.
#
# Shows map and merge in plain shell: the files travel (--files) to nodes that do not have them, outputs come back in order
# (--keep-order), and the table is compared with that of one `sort | uniq -c` over everything.
#
#     sh tools/examples/flock/words.sh [FOLDER]      # with the files; without one, the pages (*.md) of this tree
set -eu
tree=$(cd "$(dirname "$0")/../../.." && pwd)
godwit=${GODWIT_BINARY:-$tree/build/godwit}
[ -x "$godwit" ] || godwit=godwit # the one that is installed
export LC_ALL=C

# A copy of the files, of which the map takes along what other nodes lack.
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/texts"
if [ $# -gt 0 ]; then
    cp "$1"/* "$folder/texts"
else
    find "$tree/core" "$tree/net" "$tree/checkpoint" "$tree/kernels" "$tree/tools" "$tree/tests" -name '*.md' |
        sort | awk '{ printf "%s\t%03d\n", $0, NR }' |
        while IFS="$(printf '\t')" read -r page number; do cp "$page" "$folder/texts/$number.md"; done
fi
cd "$folder"

count="tr -cs A-Za-z '\n' | tr A-Z a-z | grep . | sort | uniq -c"
"$godwit" map --name words --keep-order --env LC_ALL=C --files texts "cat {} | $count" ::: texts/* >counts
awk '{ count[$2] += $1 } END { for (word in count) print count[word], word }' counts | sort -k1,1nr -k2 >table

echo "$(find texts -type f | wc -l) files, $(awk '{ n += $1 } END { print n }' table) words," \
    "$(wc -l <table) of them different. The most frequent ones:"
head -n 10 table

awk 1 texts/* | sh -c "$count" | awk '{ print $1, $2 }' | sort -k1,1nr -k2 >expected
cmp table expected || { echo "WRONG: sort | uniq -c counts otherwise." >&2 && exit 1; }
echo "Checked: one sort | uniq -c over all files counts the same."
