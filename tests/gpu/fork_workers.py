"""A parent that never touches CUDA, two workers by fork and one by spawn, and a command that the parent execs through
a shell: each must leave segments of its own, and the parent none."""
import multiprocessing
import subprocess
import sys
import time


def work(name, kernels):
    import torch

    a = torch.ones(1024, device="cuda")
    for _ in range(kernels):
        a.mul_(1.01)
    torch.cuda.synchronize()
    time.sleep(0.6)  # a forked worker ends by os._exit: what is not sealed by then is lost
    print(name, "done", flush=True)


if __name__ == "__main__":
    workers = []
    for method, name, kernels in (("fork", "one", 100), ("fork", "two", 200), ("spawn", "three", 300)):
        workers.append(multiprocessing.get_context(method).Process(target=work, args=(name, kernels)))
        workers[-1].start()
    for worker in workers:
        worker.join()
    status = subprocess.run(["sh", "-c", f"exec {sys.executable} -c 'import torch; torch.ones(8, device=\"cuda\").add_(1).sum().item()'"])
    sys.exit(status.returncode or any(w.exitcode for w in workers))
