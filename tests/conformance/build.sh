#!/bin/sh
# Compiles the conformance set: build.sh HEADERS OUT
# HEADERS is a directory with cuda.h (12.9 or newer). Nothing of CUDA is needed to link: a stand-in
# with the driver's soname and every exported name is made first, and is not part of the result.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
headers=${1:?directory of cuda.h}
out=${2:?output directory}
mkdir -p "$out"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
names=$here/../../crates/driver-api/exports-580.txt
sed 's/.*/void &(void) {}/' "$names" >"$scratch/stub.c"
gcc -w -shared -fPIC -Wl,-soname,libcuda.so.1 -o "$scratch/libcuda.so" "$scratch/stub.c"
gcc -O2 -std=gnu11 -Wall -Wno-unused-result -I "$headers" -o "$out/conform" "$here"/conform.c "$here"/topics.c \
    "$here"/memory.c "$here"/contexts.c "$here"/vmm.c "$here"/pools.c "$here"/streams.c \
    "$here"/code.c "$here"/graphs.c "$here"/trouble.c "$here"/edges.c "$here"/threads.c "$here"/managed.c -L "$scratch" -lcuda -ldl -lpthread
