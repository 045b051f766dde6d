#!/usr/bin/env bash
# tarball.sh TREE WORK DIST: builds DIST/godwit-VERSION-linux-MACHINE.tar.xz of a source tree, in the folder WORK. The program
# and its libraries run on every Linux of that machine whose glibc is 2.31 (of 2020) or later.
#
# The compiler is this system's. It builds for the glibc of Debian 11, whose packages mmdebstrap unpacks into a folder (a
# sysroot). So do libraries that need a newer glibc in this system. Those that computed bytes depend on (OpenBLAS, and what
# cuts texts into tokens) are this system's, as in the Debian package, so that peers of both form one flock.
#
# SOURCE_DATE_EPOCH is the time of all files in the tar ball. MIRROR names another mirror of Debian.
set -euo pipefail

mkdir -p "$2" "$3"
tree=$(realpath "$1") work=$(realpath "$2") dist=$(realpath "$3")
glibc=2.31 suite=bullseye
root=$work/sysroot
triplet=$(gcc -print-multiarch)
version=$(sed -n 's/^project(godwit VERSION \([0-9.]*\) .*/\1/p' "$tree/CMakeLists.txt")
name=godwit-$version
folder=$work/$name
libraries=$folder/lib/godwit

old=(libc6-dev libsodium-dev libmicrohttpd-dev libzstd-dev libncurses-dev libgfortran5 libibverbs-dev librdmacm-dev)
own=(libopenblas0-serial libopenblas-serial-dev libpcre2-8-0 libpcre2-dev libutf8proc2 libutf8proc-dev libjansson4
    libjansson-dev zlib1g zlib1g-dev)
# Every system has these. Those of glibc have to be its own; what is loaded while the program runs may need a later libgcc.
system='^(libc|libm|libdl|libpthread|librt|libresolv|libgcc_s|ld-linux[^.]*)\.so'

die() {
    printf 'tarball.sh: %s\n' "$*" >&2
    exit 1
}

# make_sysroot: unpacks the old system, and this system's own libraries over it.
make_sysroot() {
    local include mirror link
    include=$(IFS=, && echo "${old[*]}")
    for mirror in ${MIRROR:-http://deb.debian.org/debian http://archive.debian.org/debian}; do
        rm -rf "$root"
        if mmdebstrap --quiet --variant=extract "--include=$include" "$suite" "$root" "deb $mirror $suite main"; then break; fi
    done
    [ -e "$root/lib/$triplet/libc.so.6" ] || die "Debian's packages of $suite cannot be had: MIRROR=URL names another mirror"
    dpkg -L "${own[@]}" | sort -u | while IFS= read -r link; do
        if [ -f "$link" ]; then printf '%s\0' "$link"; fi
    done | tar --null -P -T - -c | tar -P --transform "s#^/#$root/#S" -x
    # Links from / lead out of the sysroot.
    find "$root" -type l -lname '/*' | while IFS= read -r link; do ln -sfnr "$root$(readlink "$link")" "$link"; done
}

# build: installs the program below $folder.
build() {
    local flags=(-B "$root/usr/lib/$triplet" -L "$root/usr/lib/$triplet" -L "$root/lib/$triplet") # before gcc's own folders
    local names=("-ffile-prefix-map=$tree=." "-ffile-prefix-map=$work/build=." "-ffile-prefix-map=$root=")
    export PKG_CONFIG_SYSROOT_DIR=$root PKG_CONFIG_LIBDIR=$root/usr/lib/$triplet/pkgconfig:$root/usr/share/pkgconfig
    cmake -S "$tree" -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DGODWIT_TESTS=OFF -DGODWIT_CUDA=OFF \
        "-DCMAKE_SYSROOT=$root" "-DCMAKE_FIND_ROOT_PATH=$root" -DCMAKE_FIND_ROOT_PATH_MODE_LIBRARY=ONLY \
        -DCMAKE_FIND_ROOT_PATH_MODE_INCLUDE=ONLY \
        "-DCMAKE_C_FLAGS=${names[*]} -D_FORTIFY_SOURCE=2 -fstack-protector-strong" \
        "-DCMAKE_EXE_LINKER_FLAGS=${flags[*]} -Wl,-z,now"
    ninja -C "$work/build" godwit
    rm -rf "$folder"
    cmake --install "$work/build" --prefix "$folder" --strip
}

# needed FILE: the libraries that it names, but for the system's.
needed() {
    objdump -p "$1" | sed -n 's/^ *NEEDED *//p' | grep -vE "$system" || true
}

# add_library SONAME: the library, what it needs, and its licence.
add_library() {
    local place found='' package
    if [ -e "$libraries/$1" ]; then return 0; fi
    for place in "usr/lib/$triplet/openblas-serial" "usr/lib/$triplet" "lib/$triplet"; do
        if [ -z "$found" ] && [ -e "$root/$place/$1" ]; then found=$root/$place/$1; fi
    done
    [ -n "$found" ] || die "$1 is not in the sysroot"
    cp -L "$found" "$libraries/$1"
    strip --strip-unneeded "$libraries/$1"
    case $1 in
    libopenblas.so.0) package=libopenblas0-serial ;;
    libz.so.1) package=zlib1g ;;
    *) package=$(sed -E 's/([0-9])\.so\./\1-/; s/\.so\.//' <<<"$1") ;; # Debian's rule for such packages' names
    esac
    [ -e "$root/usr/share/doc/$package/copyright" ] || die "$1 has no licence at /usr/share/doc/$package"
    cp -L "$root/usr/share/doc/$package/copyright" "$folder/share/doc/godwit/licenses/$package.txt"
    add_needed "$libraries/$1"
    patchelf --set-rpath "\$ORIGIN" "$libraries/$1"
}

add_needed() {
    local one
    for one in $(needed "$1"); do add_library "$one"; done
}

# check: nothing in the tar ball needs a later glibc.
check() {
    local file latest
    for file in "$folder/bin/godwit" "$libraries"/*; do
        latest=$(objdump -T "$file" | grep -oE 'GLIBC_[0-9.]+' | sort -Vu | tail -n 1)
        if [ "$(printf '%s\n' "$latest" "GLIBC_$glibc" | sort -V | tail -n 1)" != "GLIBC_$glibc" ]; then
            die "$file needs $latest: the packages of this system are newer than those of Debian 12"
        fi
    done
}

make_sysroot
build
mkdir -p "$libraries" "$folder/share/doc/godwit/licenses"
add_needed "$folder/bin/godwit"
patchelf --set-rpath "\$ORIGIN/../lib/godwit" "$folder/bin/godwit"
check
"$folder/bin/godwit" --version
tar -C "$work" --sort=name --owner=0 --group=0 --numeric-owner --mode=go-w "--mtime=@$SOURCE_DATE_EPOCH" -c "$name" |
    xz -6 >"$work/$name.tar.xz"
mv "$work/$name.tar.xz" "$dist/$name-linux-$(uname -m).tar.xz"
