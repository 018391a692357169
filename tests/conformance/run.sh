#!/bin/sh
# Prints the transcript of whichever libcuda.so.1 the loader finds: run.sh CONFORM [topic …]
# Keep it as tests/conformance/h200.txt when the driver is a real one.
set -eu
conform=${1:?the conform program, from build.sh}
shift
echo "# divvy conformance transcript, version 1"
if [ $# -eq 0 ]; then
    exec "$conform"
fi
for topic in "$@"; do
    "$conform" "$topic"
done
