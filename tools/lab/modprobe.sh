#!/bin/busybox sh
# shellcheck shell=dash
# The kernel of a lab machine runs it when it lacks something: "modprobe -q -- NAME". What is there beside what every
# machine has is loaded as a whole (image.py, ON_DEMAND).
case $3 in
*veth | *bridge | *netem | *tbf | *numgen | nf_tables | nfnetlink*)
    while read -r module; do
        /bin/busybox insmod "/modules/$module" || exit
    done </modules/more
    rm /modules/more # it is there once and for all
    ;;
*) exit 1 ;;
esac
