#!/usr/bin/env bash
# Checks the live producer with a real CUDA and a real tracing service: bench/perfetto_check.sh BUILD, with Perfetto's `traced` and `perfetto` in
# PATH. Writes the traces to $OUT, where bench/perfetto_rows.py can check them.
set -u
cd "$(dirname "$0")/.." || exit 1
build=$(realpath "${1:?the folder of a build}")
folder=$(mktemp -d)
out=${OUT:-$folder}
export PERFETTO_PRODUCER_SOCK_NAME=$folder/producer PERFETTO_CONSUMER_SOCK_NAME=$folder/consumer
traced >"$folder/traced.log" 2>&1 &
service=$!
trap 'kill $service; rm -rf "$folder"' EXIT
sleep 1
nvcc -O2 -arch=native -o "$folder/launch" bench/workloads/launch.cu || exit
nvcc -O2 -arch=native -o "$folder/counters" bench/workloads/counters.cu || exit

# from_the_start CONFIG TRACE COMMAND…: traces all of a command.
from_the_start() {
	local config=$1 trace=$2 session
	shift 2
	session=$(perfetto --background-wait --txt -c "$config" -o "$trace")
	PITOT_LOG=$folder/log CUDA_INJECTION64_PATH=$build/libpitot.so NVTX_INJECTION64_PATH=$build/libpitot.so \
		__TRACE_STARTUP=gpu.renderstages timeout 60 "$@"
	echo "status $?"
	kill "$session"
	tail --pid="$session" -f /dev/null
	echo "$(stat -c %s "$trace") bytes"
}

echo "== from the start"
cat >"$folder/start.pbtx" <<-CONFIG
	buffers { size_kb: 131072 fill_policy: DISCARD }
	flush_period_ms: 1000
	data_sources { config { name: "gpu.renderstages" } }
	data_sources { config { name: "gpu.track_event" } }
CONFIG
from_the_start "$folder/start.pbtx" "$out/launch.pftrace" "$folder/launch" 20000

echo "== injected without a tracing session; bare"
for round in 1 2 3; do
	echo "bare      $("$folder/launch" 100000)"
	echo "injected  $(CUDA_INJECTION64_PATH=$build/libpitot.so timeout 60 "$folder/launch" 100000)"
done

cat >"$folder/middle.pbtx" <<-CONFIG
	buffers { size_kb: 131072 fill_policy: DISCARD }
	data_sources { config { name: "gpu.renderstages" } }
	data_sources { config { name: "gpu.track_event" } }
	data_sources { config { name: "gpu.counters.nv" gpu_counter_config { counter_period_ns: 100000000 } } }
	duration_ms: 1000
CONFIG

# Traces an injected program in sessions of one second each while it runs: from_the_middle NAME COMMAND…
from_the_middle() {
	local name=$1 number=0
	shift
	echo "== from the middle: $name"
	PITOT_LOG=$folder/$name.log CUDA_INJECTION64_PATH=$build/libpitot.so NVTX_INJECTION64_PATH=$build/libpitot.so timeout 100 \
		"$@" >"$folder/$name.out" 2>&1 &
	program=$!
	while [ $number -lt 40 ] && kill -0 $program 2>/dev/null; do
		number=$((number + 1))
		timeout 30 perfetto --txt -c "$folder/middle.pbtx" -o "$folder/$name-$number.pftrace" 2>/dev/null
	done
	wait $program
	echo "status $?, $(tail -1 "$folder/$name.out"), bytes of the traces: $(stat -c %s "$folder/$name"-*.pftrace | sort -n | tr '\n' ' ')"
	grep perfetto "$folder/$name.log" | head -8
	cp "$(ls -S "$folder/$name"-*.pftrace | head -1)" "$out/$name.pftrace"
}
nvcc -O2 -arch=native -o "$folder/stalls" bench/workloads/stalls.cu && from_the_middle stalls "$folder/stalls" 4
from_the_middle decode python3 bench/workloads/decode.py

echo "== hardware counters"
cat >"$folder/counters.pbtx" <<-CONFIG
	buffers { size_kb: 131072 fill_policy: DISCARD }
	data_sources { config { name: "gpu.renderstages" } }
	data_sources { config { name: "gpu.counters.nv" gpu_counter_config {
		counter_names: "gpu__time_duration.sum" counter_names: "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum"
		instrumented_sampling_config { activity_name_filters { name_glob: "*fma_kernel*" } } } } }
CONFIG
from_the_start "$folder/counters.pbtx" "$out/counters.pftrace" "$folder/counters"
grep -v "kernels of CUDA" "$folder/log" | tail -5
tail -2 "$folder/traced.log"
