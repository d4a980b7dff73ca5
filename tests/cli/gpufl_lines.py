"""Lines of gpufl's logs, and folders of them."""
import gzip
import json

S = "11111111-2222-4333-8444-555555555555"
T0 = 1_700_000_000_000_000_000
START = {"version": 1, "type": "job_start", "pid": 42, "app": "app", "session_id": S, "log_path": "logs/app", "ts_ns": T0,
         "hostname": "vm", "ip_addr": "", "session_kind": "trace", "profiling_engine": "nvidia.trace",
         "devices": [{"id": 0, "name": "NVIDIA H200", "uuid": "GPU-x", "total_mib": 1024}],
         "gpu_static_devices": [{"id": 0, "name": "NVIDIA H200", "uuid": "GPU-x", "compute_major": 9, "multi_processor_count": 132}]}
END = {"type": "shutdown", "pid": 42, "app": "app", "session_id": S, "ts_ns": T0 + 9000}
NAMES = {"version": 1, "type": "dictionary_update", "session_id": S, "kernel_dict": {"7": "gemm", "8": "<&>|\"\\é"},
         "scope_name_dict": {"1": "step", "2": "inner"}, "function_dict": {"3": "gemm@a.cu", "4": "main|wait"},
         "metric_dict": {"1": "smsp__pcsamp_warps_issue_stalled_long_scoreboard", "2": "sm__warps_launched.sum"}}


def batch(kind, columns, *rows, base=T0):
    return {"version": 1, "type": kind, "session_id": S, "batch_id": 1, "base_time_ns": base, "columns": columns.split(), "rows": rows}


def kernels(*rows, base=T0):
    return batch("kernel_event_batch",
                 "dt_ns kernel_id stream_id duration_ns corr_id dyn_shared num_regs has_details external_kind external_id", *rows, base=base)


def detail(corr_id, scope="global", stack="", grid="(16,2,1)"):
    return {"type": "kernel_detail", "session_id": S, "pid": 42, "app": "app", "corr_id": corr_id, "grid": grid, "block": "(256,1,1)",
            "static_shared": 48, "local_bytes": 0, "const_bytes": 0, "occupancy": 0.5, "limiting_resource": "warps",
            "local_mem_total_bytes": 0, "cache_config_requested": 0, "shared_mem_executed_bytes": 0, "user_scope": scope, "stack_trace": stack}


def scopes(*rows):
    return batch("scope_event_batch", "dt_ns scope_instance_id name_id event_type depth repeat warmup original_start_ns", *rows)


def write(path, *lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(line if isinstance(line, str) else json.dumps(line, ensure_ascii=False) + "\n" for line in lines).encode()
    path.write_bytes(gzip.compress(text) if path.name.endswith(".gz") else text)


def device_lines():
    return [START, NAMES, kernels([0, 7, 2, 1500, 99, 16, 64, 1, 0, 0], [-100, 8, 3, 1000, 100, 0, 32, 0, 4, 77], base=T0 + 2000),
            detail(99, "process:app|step|inner", "main|f"),
            batch("memcpy_event_batch", "dt_ns stream_id duration_ns bytes copy_kind corr_id", [0, 5, 400, 4096, 1, 101], base=T0 + 800),
            {"type": "memset_event", "session_id": S, "device_id": "0", "stream_id": "7", "stack_trace": "", "user_scope": "", "start_ns": T0 + 900,
             "end_ns": T0 + 950, "corr_id": 102, "bytes": 64}, END]
