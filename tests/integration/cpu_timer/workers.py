"""Forked workers, some of which end by os._exit, as those of DataLoader do."""
import multiprocessing
import os
import time


def work(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        sum(range(1000))
    return os.getpid()


if __name__ == "__main__":
    multiprocessing.set_start_method("fork")
    workers = [multiprocessing.Process(target=work, args=(1.0,)) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    print([worker.exitcode for worker in workers])
