#!/bin/bash
# Runs what a GPU machine has to show in one go: correctness of small programs, tapes, and the cost against the floor.
# usage: bench/gpu-first.sh BUILD [OUT]
set -u
build=$(realpath "$1"); out=${2:-${OUT:-/tmp/out}}; mkdir -p "$out"; work=$(mktemp -d)
cd "$(dirname "$0")/.."
nvcc -arch=sm_90 -O2 -o "$work/launch" bench/workloads/launch.cu || exit 1
nvcc -arch=sm_90 -std=c++17 -O2 -o "$work/kinds" tests/gpu/kinds.cu || exit 1
cuda=/usr/local/cuda
gcc -O2 -shared -fPIC -I$cuda/include -o "$work/libfloor.so" bench/workloads/floor.c -L$cuda/lib64 -lcupti -L$cuda/extras/CUPTI/lib64 -Wl,-rpath,$cuda/lib64:$cuda/extras/CUPTI/lib64 2>&1 | head -5
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader; uname -r; nproc
record() { # NAME COMMAND...: with libpitot.so alone
	local name=$1; shift
	mkdir -p "$work/$name.pitot"
	CUDA_INJECTION64_PATH=$build/libpitot.so NVTX_INJECTION64_PATH=$build/libpitot.so PITOT_RECORDING=$work/$name.pitot \
		PITOT_LOG=$out/$name.log "$@"
}
echo "--- kinds"; time "$work/kinds"; PITOT_OPTIONS="graphs=node;sync=1;memory=1" record kinds "$work/kinds"; echo "status $?"
PITOT_TAPE=$out/kinds.tape record kinds-tape "$work/kinds"; echo "status $?"
PITOT_TAPE=$out/launch.tape record launch-tape "$work/launch" 1000; echo "status $?"
PITOT_TAPE=$out/train.tape record train-tape python3 tests/gpu/train_small.py; echo "status $?"
ls -la $out/*.tape
for i in 1 2 3; do
	echo "--- launch round $i"
	"$work/launch"
	CUDA_INJECTION64_PATH=$work/libfloor.so FLOOR=1 "$work/launch"
	CUDA_INJECTION64_PATH=$work/libfloor.so FLOOR=3 "$work/launch"
	record launch$i "$work/launch"
done
for i in 1 2; do
	echo "--- train round $i"
	python3 bench/workloads/train.py
	CUDA_INJECTION64_PATH=$work/libfloor.so FLOOR=1 python3 bench/workloads/train.py
	record train$i python3 bench/workloads/train.py
done
du -sb "$work"/*.pitot
(cd "$work" && tar czf "$out/recordings.tgz" kinds.pitot launch1.pitot train1.pitot)
ls -la "$out"
