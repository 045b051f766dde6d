#!/bin/sh
# Compiles gpt.c and checks that two peers, one of which is killed, end with the bytes of one undisturbed peer.
# GODWIT, INCLUDE and CC override the program, the folder of core/godwit.h and the compiler.
set -eu
cd "$(dirname "$0")"
GODWIT=${GODWIT:-/work/wt/mendb/build/godwit}
INCLUDE=${INCLUDE:-/work/wt/mendb}
work=$(mktemp -d)
first='' second=''
end() {
    for peer in $first $second; do kill -9 "$peer" 2> /dev/null || true; done
    rm -rf "$work"
}
trap end EXIT
trap 'exit 1' INT TERM HUP

"${CC:-cc}" -std=c11 -Wall -Wextra -O2 -shared -fPIC -I"$INCLUDE" -o gpt.so gpt.c

# Runs a peer with its own folder below $work; the other arguments are options.
peer() {
    folder=$work/$1
    shift
    exec "$GODWIT" run ./gpt.so --dir "$folder" --listen 127.0.0.1:0 --cluster "gpt-test-$$" --workers 1 "$@" \
        > "$folder.out" 2> "$folder.err"
}

state() {
    sed -n 's/^godwit: done .*state=\([0-9a-f]*\).*/\1/p' "$work/$1.out"
}

# Waits up to a minute until the output of a peer has a line that matches, and prints the match.
await() {
    tries=0
    until found=$(grep -o "$2" "$work/$1.out" 2> /dev/null); do
        tries=$((tries + 1))
        if [ $tries -gt 600 ]; then
            echo "gpt-test: peer $1 did not say '$2'" >&2
            cat "$work/$1.err" >&2
            exit 1
        fi
        sleep 0.1
    done
    echo "$found" | head -n 1
}

(peer alone) || { cat "$work/alone.err" >&2; exit 1; }

peer first --peers 2 &
first=$!
listening=$(await first 'listening on [0-9.:]*')
peer second --peers 2 --join "${listening#listening on }" &
second=$!
await first 'view [0-9]*: 2 peers' > /dev/null
kill -9 "$second" 2> /dev/null || true
wait "$first" || { cat "$work/first.err" >&2; exit 1; }
first=''

if [ -z "$(state alone)" ] || [ "$(state first)" != "$(state alone)" ]; then
    echo "gpt-test: the states differ: $(state alone) on one peer, $(state first) where one of two was killed" >&2
    exit 1
fi
sed -n 's/^godwit: done \(.*\)/\1/p' "$work/first.out"
echo "gpt-test: the same bytes as on one undisturbed peer"
