#!/usr/bin/env bash
# Checks a change of the recorder on a GPU, the most harmful failures first. Prints its findings as it goes.
# usage: bench/gpu_check.sh BUILD [AGAINST] [STEP…]: AGAINST is a build without the change, - for none; steps: crash twice share share_more
#	scopes system stalls counters ranges beside pm sass operators memory tests programs cost
set -u
cd "$(dirname "$0")/.." || exit 1
build=$(realpath "${1:?usage: bench/gpu_check.sh BUILD [AGAINST] [STEP…]}")
against=${2:--}
shift $(($# < 2 ? $# : 2))
steps=${*:-crash twice share share_more scopes system stalls counters ranges beside pm sass operators memory tests programs cost}
folder=$(mktemp -d)
if [ "$against" != - ]; then against=$(realpath "$against"); fi

nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
nproc

# Prints the stack of a crash: decode.py crashed once, on a freshly booted machine with cold caches.
crash() {
	gcc -shared -fPIC -O1 -o "$folder/backtrace.so" bench/workloads/segv_backtrace.c || return
	for i in 1 2 3 4; do
		sync
		echo 3 2>/dev/null >/proc/sys/vm/drop_caches
		LD_PRELOAD=$folder/backtrace.so timeout 120 "$build/pitot" record -q -o "$folder/decode-$i.pitot" -- \
			python3 bench/workloads/decode.py >"$folder/out" 2>"$folder/err"
		echo "decode, cold, run $i: status $?, $(tail -1 "$folder/out")"
		grep -A40 "signal 11" "$folder/err" | head -40
	done
}

# Two consecutive recordings of one process: the second must contain the contexts and streams created before it.
twice() {
	nvcc -O1 -std=c++17 -Iinclude -o "$folder/twice" bench/workloads/twice.cu -L"$build" -lpitot -Xlinker -rpath="$build" || return
	(cd "$folder" && ./twice)
	for recording in "$folder"/twice-1.pitot "$folder"/twice-2.pitot; do
		for table in kernel context stream; do
			echo "$(basename "$recording") $table: $("$build/pitot" view --json "$recording" $table | wc -l)"
		done
		"$build/pitot" view --json "$recording" loss
	done
}

# torch.profiler with a schedule, twice in one process: alone, and together with Pitot. It must see the same kernels.
share() {
	for way in alone keep share; do
		command=(python3 bench/workloads/own_profiler.py "$folder/own-$way.json")
		if [ $way != alone ]; then
			command=("$build/pitot" record -q -o "$folder/own-$way.pitot" --own-profiler $way -- "${command[@]}")
		fi
		timeout 120 "${command[@]}" >"$folder/out" 2>"$folder/err"
		echo "torch.profiler $way: status $?, $(tail -1 "$folder/out") $(tail -1 "$folder/err")"
	done
	"$build/pitot" view --json "$folder/own-share.pitot" capability | grep own_profiler
	for way in keep share; do
		"$build/pitot" report --json -q "$folder/own-$way.pitot" | python3 -c "import json, sys; r = json.load(sys.stdin); print('$way', 'recorded kernels', sum(g['busy']['kernels']['count'] for g in r['gpus']))"
	done
}

# Other profilers together with Pitot, and the cost for a program without one.
share_more() {
	for profiler in proton jax; do
		timeout 100 python3 bench/workloads/other_profilers.py $profiler "$folder/alone-$profiler" 2>"$folder/err" | tail -1
		timeout 100 "$build/pitot" record -q -o "$folder/$profiler.pitot" --own-profiler share -- \
			python3 bench/workloads/other_profilers.py $profiler "$folder/with-$profiler" 2>"$folder/err" | tail -1
		echo "status ${PIPESTATUS[0]}, $(grep -i cupti "$folder/err" | head -2)"
		"$build/pitot" view --json "$folder/$profiler.pitot" capability | grep own_profiler | tail -1
		"$build/pitot" report --json -q "$folder/$profiler.pitot" | python3 -c "import json, sys; r = json.load(sys.stdin); print('recorded kernels', sum(g['busy']['kernels']['count'] for g in r['gpus']))"
	done
	TEARDOWN_CUPTI=1 timeout 100 "$build/pitot" record -q -o "$folder/teardown.pitot" --own-profiler share -- \
		python3 bench/workloads/own_profiler.py "$folder/own.json" 2>&1 | tail -1
	"$build/pitot" report --json -q "$folder/teardown.pitot" | python3 -c "import json, sys; r = json.load(sys.stdin); print('with TEARDOWN_CUPTI=1 recorded kernels', sum(g['busy']['kernels']['count'] for g in r['gpus']))"
	nvcc -arch=native -O2 -o "$folder/launch" bench/workloads/launch.cu
	for i in 1 2 3 4 5; do
		for way in keep share; do
			"$build/pitot" record -q -f -o "$folder/launch.pitot" --own-profiler $way -- "$folder/launch" | sed "s/^/$way /"
		done
	done
	for way in keep share keep share; do
		"$build/pitot" record -q -f -o "$folder/start.pitot" --own-profiler $way -- python3 -c "import torch; torch.ones(9).cuda(); import transformers"
		echo "start of PyTorch, $way: $("$build/pitot" report --json -q "$folder/start.pitot" | python3 -c "import json, sys; r = json.load(sys.stdin); print(json.dumps(r['cost'])[:300])")"
	done
}

# Times of scopes by CUDA events, and by the report.
scopes() {
	nvcc -O1 -std=c++17 -Iinclude -o "$folder/scopes" bench/workloads/scopes.cu -L"$build" -lpitot -Xlinker -rpath="$build" || return
	(cd "$folder" && ./scopes)
	"$build/pitot" report -q --scopes "$folder"/scopes-*.pitot | sed -n '/^scopes/,/^$/p'
}

# Values of NVML and GPM, and the cost of reading them.
system() {
	"$build/pitot" monitor --json --interval 100ms --duration 2s 2>"$folder/err" | tail -1
	tail -3 "$folder/err"
	python3 bench/monitor.py --build "$build" --runs 3
	for choice in basic all; do
		"$build/pitot" record -q --system $choice --counters=100ms -o "$folder/system-$choice.pitot" -- python3 bench/workloads/decode.py >"$folder/out"
		"$build/pitot" view --json "$folder/system-$choice.pitot" capability | grep -E '"nvml"|host_counters'
	done
	"$build/pitot" report -q --system "$folder/system-all.pitot" | sed -n '/^system/,/^$/p'
	"$build/pitot" record -q --engine monitor -o "$folder/monitor.pitot" -- python3 bench/workloads/decode.py >"$folder/out"
	"$build/pitot" view --json "$folder/monitor.pitot" device | head -2
}

# Stall reasons by --engine pc-sampling in kernels with known stalls, its cost, and whether it breaks anything.
stalls() {
	nvcc -O2 -lineinfo -arch=native -o "$folder/stalls" bench/workloads/stalls.cu || return
	nvcc -O2 -arch=native -o "$folder/launch" bench/workloads/launch.cu || return
	for round in 1 2; do
		for way in bare trace pc-sampling; do
			command=()
			if [ $way != bare ]; then
				command=("$build/pitot" record -q -f --engine $way -o "$folder/stalls-$way.pitot" --)
			fi
			SECONDS=0
			PITOT_LOG=$folder/stalls-$way.log timeout 20 "${command[@]}" "$folder/stalls" 1 >"$folder/out" 2>"$folder/err"
			echo "stalls $way $round: status $?, ${SECONDS} s, $(tail -1 "$folder/out") $(tail -1 "$folder/err")"
		done
	done
	pc_rows "$folder/stalls-pc-sampling.pitot"
	grep -c 'pc-sampling: context.*read' "$folder/stalls-pc-sampling.log"
	grep 'pc-sampling: ' "$folder/stalls-pc-sampling.log" | sed -n '1,6p;$p'
	timeout 20 "$folder/launch" 20000 | sed "s/^/launch bare: /"
	for way in trace pc-sampling; do
		timeout 20 "$build/pitot" record -q -f --engine $way -o "$folder/launch-$way.pitot" -- "$folder/launch" 20000 2>&1 | sed "s/^/launch $way: /"
	done
	# A window in the middle of a run hung once: it must end by itself, with samples and kernels.
	timeout 20 "$build/pitot" record -q -f --engine pc-sampling --delay 1s --duration 1s -o "$folder/stalls-window.pitot" -- "$folder/stalls" 3
	echo "window: status $?"
	pc_rows "$folder/stalls-window.pitot"
	nvcc -O2 -arch=native -o "$folder/modules" bench/workloads/modules.cu &&
		nvcc -O2 -lineinfo -arch=native -cubin -o "$folder/stalls.cubin" bench/workloads/stalls.cu
	timeout 20 "$build/pitot" record -q -f --engine pc-sampling -o "$folder/modules.pitot" -- "$folder/modules" "$folder/stalls.cubin" 300
	echo "modules: status $?"
	pc_rows "$folder/modules.pitot"
	# PyTorch loads modules lazily, during launches.
	for workload in train decode; do
		SECONDS=0
		timeout 60 "$build/pitot" record -q -f --engine pc-sampling -o "$folder/pc-$workload.pitot" -- python3 bench/workloads/$workload.py >"$folder/out" 2>"$folder/err"
		echo "$workload: status $?, ${SECONDS} s, $(tail -1 "$folder/out") $(tail -1 "$folder/err")"
		pc_rows "$folder/pc-$workload.pitot"
		du -sh "$folder/pc-$workload.pitot" "$folder/pc-$workload.pitot/cubins" 2>/dev/null
	done
}

# Prints what PC sampling has recorded.
pc_rows() {
	"$build/pitot" view --json --quiet "$1" capability | grep -E '"engine"|"clock"' | cut -c1-600
	"$build/pitot" view --json --quiet "$1" loss | cut -c1-300
	"$build/pitot" view --json --quiet "$1" cost | grep '"setup"' | cut -c1-200
	for table in pc_reading pc_sample cubin kernel; do
		"$build/pitot" view --json --quiet "$1" $table >"$folder/rows-$table"
	done
	python3 bench/pc_rows.py "$folder"/rows-pc_reading "$folder"/rows-pc_sample "$folder"/rows-cubin "$folder"/rows-kernel
	ls -l "$1/cubins" 2>/dev/null | head -8
}

# Counters by --engine range-profiler of kernels with known work, whether it changes their results, and its cost for kernels that it does not
# measure; what the host API says about this GPU.
counters() {
	local metrics=gpu__time_duration.sum,smsp__sass_thread_inst_executed_op_ffma_pred_on.sum,dram__bytes_read.sum,dram__bytes_write.sum
	metrics=$metrics,l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum,no__such_metric.sum
	timeout 20 "$build/pitot" metrics default | tail -3
	nvcc -O2 -arch=native -o "$folder/counters" bench/workloads/counters.cu || return
	timeout 20 "$folder/counters" | grep -v '^expect' | sed 's/^/bare: /'
	timeout 20 "$build/pitot" record -q -f --engine trace -o "$folder/counters-trace.pitot" -- "$folder/counters" 2>&1 | grep -v '^expect' | sed 's/^/trace: /'
	# Nothing matches; then each of the three kernels, with small ones between and after it.
	timeout 20 "$build/pitot" record -q -f --engine range-profiler --kernels no_such -o "$folder/counters-none.pitot" -- "$folder/counters" 2>&1 |
		grep -v '^expect' | sed 's/^/none measured: /'
	for choice in fma_kernel stream_kernel conflicts_kernel; do
		SECONDS=0
		PITOT_LOG=$folder/counters.log timeout 60 "$build/pitot" record -q -f --engine range-profiler --metrics "$metrics" --kernels "$choice" \
			-o "$folder/counters.pitot" -- "$folder/counters" >"$folder/out" 2>"$folder/err"
		echo "$choice: status $?, ${SECONDS} s, $(tail -1 "$folder/err")"
		grep -v '^expect' "$folder/out"
		counter_rows "$folder/counters.pitot" "$folder/out"
	done
	grep -E 'range-profiler|engine|metrics' "$folder/counters.log" | head -10
	timeout 60 "$build/pitot" record -q -f --engine range-profiler --kernels _kernel --count 3 -o "$folder/counters-sets.pitot" \
		--metrics default,memory,compute,tensor,roofline -- "$folder/counters" 1 >"$folder/out" 2>"$folder/err"
	echo "all sets: status $?, $(tail -1 "$folder/err")"
	"$build/pitot" report -q --counters "$folder/counters-sets.pitot" | sed -n '/^counters/,/^$/p' | head -80
	python3 -c 'import torch' 2>/dev/null || return
	SECONDS=0
	timeout 120 "$build/pitot" record -q -f --engine range-profiler --metrics memory,tensor --skip 200 --count 20 -o "$folder/counters-torch.pitot" -- \
		python3 bench/workloads/decode.py >"$folder/out" 2>"$folder/err"
	echo "PyTorch: status $?, ${SECONDS} s, $(tail -1 "$folder/out") $(tail -1 "$folder/err")"
	counter_rows "$folder/counters-torch.pitot" | head -30
}

# Counters of ranges and graphs with known work, their cost for other kernels, and in PyTorch.
ranges() {
	local metrics=gpu__time_duration.sum,dram__bytes_read.sum,dram__bytes_write.sum,l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum
	metrics=$metrics,smsp__inst_executed.sum,smsp__sass_thread_inst_executed_op_ffma_pred_on.sum
	nvcc -O2 -arch=native -o "$folder/ranges" bench/workloads/ranges.cu || return
	timeout 20 "$folder/ranges" | grep -v '^expect' | sed 's/^/bare: /'
	timeout 20 "$build/pitot" record -q -f --engine trace -o "$folder/ranges-trace.pitot" -- "$folder/ranges" 2>&1 | grep -v '^expect' | sed 's/^/trace: /'
	for choice in "range --nvtx no_such" range graph "range --nvtx stream --metrics memory" "kernel --nvtx conflicts"; do
		SECONDS=0
		# shellcheck disable=SC2086
		PITOT_LOG=$folder/ranges.log timeout 60 "$build/pitot" record -q -f --engine range-profiler --metrics "$metrics" --count 0 --measure $choice \
			-o "$folder/ranges.pitot" -- "$folder/ranges" >"$folder/out" 2>"$folder/err"
		echo "$choice: status $?, ${SECONDS} s, $(tail -1 "$folder/err") $(grep -v '^expect' "$folder/out")"
		"$build/pitot" view --json --quiet "$folder/ranges.pitot" capability | grep -E '"engine"|metrics"' | cut -c1-500
		"$build/pitot" view --json --quiet "$folder/ranges.pitot" loss | cut -c1-300
		"$build/pitot" view --json --quiet "$folder/ranges.pitot" cost | grep -E '"replay"' | tail -1 | cut -c1-200
		"$build/pitot" view --json --quiet "$folder/ranges.pitot" kernel | python3 -c "import json, sys; k = [json.loads(r) for r in sys.stdin]; print(len(k), 'kernels,', sum(not r['start_ns'] or not r['end_ns'] for r in k), 'without times')"
		"$build/pitot" view --json --quiet "$folder/ranges.pitot" range_value >"$folder/rows-range_value"
		python3 bench/range_rows.py "$folder/rows-range_value" "$folder/out"
	done
	"$build/pitot" report -q --counters "$folder/ranges.pitot" | sed -n '/^counters/,/^$/p' | head -40
	python3 -c 'import torch' 2>/dev/null || return
	for way in range kernel; do
		SECONDS=0
		timeout 60 "$build/pitot" record -q -f --engine range-profiler --measure $way --metrics default --count 4 -o "$folder/ranges-torch.pitot" -- \
			python3 bench/workloads/ranges.py 40 >"$folder/out" 2>"$folder/err"
		echo "PyTorch, $way: status $?, ${SECONDS} s, $(tail -1 "$folder/out") $(tail -1 "$folder/err")"
		"$build/pitot" report -q --counters "$folder/ranges-torch.pitot" | sed -n '/^counters/,/^$/p' | head -30
		"$build/pitot" view --json --quiet "$folder/ranges-torch.pitot" loss | cut -c1-300
	done
}

# Whether the engines that measure launches and ranges leave alone what other threads do: launches, graphs and their captures.
beside() {
	nvcc -O2 -arch=native -o "$folder/beside" bench/workloads/beside.cu -lpthread || return
	gcc -shared -fPIC -O1 -o "$folder/backtrace.so" bench/workloads/segv_backtrace.c
	for work in "kernels thread" "kernels turns" "graph thread" "graph turns" "instantiate thread" "capture thread" "capture thread local" "capture thread relaxed"; do
		# shellcheck disable=SC2086
		echo "bare: $(timeout 20 "$folder/beside" $work 2>&1 | tail -1)"
		for engine in "range-profiler --kernels beside --count 60" "range-profiler --measure range" "sass-metrics --kernels beside --count 0"; do
			for pitot in "$build" "$against"; do
				if [ "$pitot" = - ]; then continue; fi
				# shellcheck disable=SC2086
				LD_PRELOAD=$folder/backtrace.so LD_LIBRARY_PATH=$pitot timeout 60 "$pitot/pitot" record -q -f --engine $engine -o "$folder/beside.pitot" -- \
					"$folder/beside" $work >"$folder/out" 2>"$folder/err"
				status=$?
				echo "$(basename "$pitot"), $engine, $work: status $status, $(tail -1 "$folder/out")"
				grep -v '^$' "$folder/err" | head -4
				for table in loss metric_value range_value sass_value; do
					echo "$table $("$pitot/pitot" view --json -q "$folder/beside.pitot" $table | wc -l)"
				done | xargs echo "  rows:"
				"$pitot/pitot" view --json -q "$folder/beside.pitot" capability | grep '"engine"' | grep degraded | grep -o '"reason.*' | cut -c1-200
			done
		done
	done
}

# Prints the hardware counters of a recording.
counter_rows() {
	"$build/pitot" view --json --quiet "$1" capability | grep -E '"engine"|metrics"' | cut -c1-600
	"$build/pitot" view --json --quiet "$1" loss | cut -c1-300
	"$build/pitot" view --json --quiet "$1" cost | grep -E '"setup"|"replay"' | cut -c1-200
	for table in kernel metric_value; do
		"$build/pitot" view --json --quiet "$1" $table >"$folder/rows-$table"
	done
	python3 bench/counter_rows.py "$folder"/rows-kernel "$folder"/rows-metric_value "${@:2}"
}

# Samples by --engine pm-sampling of phases with known work, how short its interval can be, and its cost.
pm() {
	nvcc -O2 -arch=native -o "$folder/phases" bench/workloads/phases.cu && nvcc -O2 -arch=native -o "$folder/launch" bench/workloads/launch.cu || return
	for interval in 500us 20us 50us 100us 200us 1ms; do
		SECONDS=0
		PITOT_LOG=$folder/pm.log timeout 60 "$build/pitot" record -q -f --engine pm-sampling --pm-interval $interval -o "$folder/pm-$interval.pitot" -- \
			"$folder/phases" >"$folder/out" 2>"$folder/err"
		echo "$interval: status $?, ${SECONDS} s, $(du -sk "$folder/pm-$interval.pitot" | cut -f1) KiB, $(tail -1 "$folder/err")"
		for table in kernel memcpy counter counter_sample loss; do
			"$build/pitot" view --json --quiet "$folder/pm-$interval.pitot" $table >"$folder/rows-$table"
		done
		if [ $interval = 500us ]; then
			"$build/pitot" view --json --quiet "$folder/pm-$interval.pitot" capability | grep -E '"engine"|metrics"|sampling_' | cut -c1-400
			python3 bench/sample_rows.py "$folder" "$folder/out"
		else
			"$build/pitot" view --json --quiet "$folder/pm-$interval.pitot" capability | grep degraded | grep engine | cut -c1-300
			python3 bench/sample_rows.py "$folder"
		fi
	done
	grep 'pm-sampling' "$folder/pm.log" | tail -3
	timeout 20 "$folder/launch" 50000 | sed 's/^/launch bare: /'
	for way in trace pm-sampling trace pm-sampling; do
		timeout 30 "$build/pitot" record -q -f --engine $way -o "$folder/launch-$way.pitot" -- "$folder/launch" 50000 2>&1 | sed "s/^/launch $way: /"
	done
}

# Counts by --engine sass-metrics of kernels with known work, whether it changes their results, and its cost for kernels that it does not measure.
sass() {
	nvcc -O2 -lineinfo -arch=native -o "$folder/warps" bench/workloads/warps.cu || return
	timeout 20 "$folder/warps" | grep -v '^expect' | sed 's/^/bare: /'
	for way in trace "sass-metrics --kernels no_such"; do
		timeout 20 "$build/pitot" record -q -f --engine $way -o "$folder/sass-none.pitot" -- "$folder/warps" 2>&1 | grep -v '^expect' | sed "s/^/$way: /"
	done
	for way in "--count 12" "--kernels divergent --skip 2 --count 2" "--count 1000" "--metrics smsp__sass_inst_executed,nonsense"; do
		SECONDS=0
		PITOT_LOG=$folder/sass.log timeout 60 "$build/pitot" record -q -f --engine sass-metrics $way -o "$folder/sass.pitot" -- \
			"$folder/warps" >"$folder/out" 2>"$folder/err"
		echo "$way: status $?, ${SECONDS} s, $(tail -1 "$folder/err") $(grep -v '^expect' "$folder/out" | tr '\n' ' ')"
		if [ "$way" = "--count 12" ]; then sass_rows "$folder/sass.pitot" "$folder/out"; else sass_rows "$folder/sass.pitot"; fi
	done
	"$build/pitot" report "$folder/sass.pitot" | grep -E 'untimed|without times|replay|divergent|uncoalesced|measur'
	grep sass-metrics "$folder/sass.log" | sort | uniq -c | sort -rn | head -4
	# Counts all launches while samples are read and records are flushed: CUPTI hangs if these coincide with a counted launch.
	for round in 1 2 3 4; do
		timeout 60 "$build/pitot" record -q -f --engine deep --count 0 -o "$folder/deep.pitot" -- "$folder/warps" >"$folder/out" 2>"$folder/err"
		echo "deep $round: status $?, $(grep -v '^expect' "$folder/out" | tr '\n' ' ') $("$build/pitot" view --json -q "$folder/deep.pitot" sass_value | wc -l) values," \
			"$("$build/pitot" view --json -q "$folder/deep.pitot" pc_sample | wc -l) rows of samples, $("$build/pitot" view --json -q "$folder/deep.pitot" loss | cut -c1-120 | tr '\n' ' ')"
	done
	"$build/pitot" view --json -q "$folder/deep.pitot" capability | grep '"engine"' | cut -c1-250
	python3 -c 'import torch' 2>/dev/null || return
	SECONDS=0
	timeout 120 "$build/pitot" record -q -f --engine sass-metrics --kernels gemm --skip 5 --count 5 -o "$folder/sass-torch.pitot" -- \
		python3 bench/workloads/decode.py >"$folder/out" 2>"$folder/err"
	echo "PyTorch: status $?, ${SECONDS} s, $(tr '\n' ' ' <"$folder/out") $(tail -1 "$folder/err")"
	sass_rows "$folder/sass-torch.pitot"
}

# Prints the instruction counts of a recording.
sass_rows() {
	"$build/pitot" view --json --quiet "$1" capability | grep -E '"engine"|metrics"|"name": "kernel"' | grep -o '"reason.*' | cut -c1-300
	"$build/pitot" view --json --quiet "$1" loss | grep -o '"reason.*' | cut -c1-200
	"$build/pitot" view --json --quiet "$1" cost | grep -E '"replay"|"setup"' | grep -o '"kind.*' | cut -c1-160
	python3 bench/sass_rows.py "$1" "$build/pitot" "${@:2}"
}

# Operators of PyTorch: which kernels are within one, and what their scopes cost.
operators() { timeout 60 python3 bench/operators.py "$build" 25; }

# Levels of PyTorch's allocator are torch's own, and what recording them costs.
memory() { timeout 400 python3 bench/gpu_memory.py "$build"; }

tests() { tests/gpu/run "$build" 2>&1 | tail -15; }
programs() { bench/gpu_programs.sh "$build" "$folder"; }

cost() {
	local configurations=bare,floor,pitot
	local other=()
	if [ "$against" != - ]; then
		configurations=$configurations,other
		other=(--against "$against")
	fi
	for workload in launch train graph decode; do
		python3 bench/gpu_bench.py "$build" --only $workload --rounds 3 --configurations $configurations "${other[@]}"
	done
	[ -x "$folder/twice" ] && python3 bench/resident_memory.py "$build" "$folder/twice" 30
}

for step in $steps; do
	echo "== $step"
	date +%T
	$step
done
if [ -d "${OUT:-}" ]; then
	cp "$folder"/*.html "$folder"/*.pftrace "$OUT" 2>/dev/null
	for recording in "$folder"/*.pitot; do
		if [ -d "$recording" ] && [ "$(du -sm "$recording" | cut -f1)" -lt 16 ]; then
			tar -C "$folder" -czf "$OUT/$(basename "$recording").tgz" "$(basename "$recording")"
		fi
	done
fi
rm -rf "$folder"
