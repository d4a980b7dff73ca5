"""Spends known CPU time, with the recorder in it from a moment that it chooses; says how much by thread.

Usage: handover.py WHAT [ARGUMENT...], see the functions. Last it prints "process SECONDS", which exec and _exit make
impossible to take any later.
"""
import ctypes
import multiprocessing
import os
import signal
import sys
import threading
import time

SPIN = 0.4


def spin(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        for i in range(1000): i * i


def early(seconds):
    spin(seconds)


def late(seconds):
    spin(seconds)


def beside(seconds):
    spin(seconds)
    say(f"thread {threading.get_native_id()}", time.thread_time())


def say(*words):
    os.write(1, (" ".join(map(str, [os.getpid(), *words])) + "\n").encode())  # whole, also beside other processes


def load_recorder():
    """As cuInit does."""
    ctypes.CDLL(os.environ["CUDA_INJECTION64_PATH"]).InitializeInjection()


def thread(*arguments, target=beside):
    one = threading.Thread(target=target, args=arguments)
    one.start()
    return one


def plain():
    early(SPIN)
    late(SPIN)


def middle():
    early(SPIN)
    threads = [thread(2 * SPIN)]
    load_recorder()
    late(SPIN)
    threads.append(thread(SPIN))
    for one in threads:
        one.join()


def ends_at_once(how):
    middle()
    late(SPIN)
    say("process", time.process_time())
    if how == "_exit":
        os._exit(0)
    os.kill(os.getpid(), getattr(signal, how))


def becomes(*command):
    load_recorder()
    late(SPIN)
    say("process", time.process_time())
    os.execv(command[0], command)


def forks():
    load_recorder()
    late(SPIN)

    def work():
        late(SPIN)
        say("process", time.process_time())

    multiprocessing.set_start_method("fork")
    workers = [multiprocessing.Process(target=work) for _ in range(2)]
    for one in workers:
        one.start()
    for one in workers:
        one.join()


def takes_the_signal():
    load_recorder()
    late(SPIN)
    signal.signal(signal.SIGURG, lambda *_: None)
    spin(0.3)
    early(SPIN)


def blocks_the_signal():
    def blocking():
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGURG])
        early(SPIN)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGURG])
        beside(SPIN)

    load_recorder()
    one = thread(target=blocking)
    one.join()


def short_threads():
    load_recorder()
    late(0.2)
    for _ in range(100):
        thread(0.003, target=spin).join()


def environment():
    plain()
    say("LD_PRELOAD", os.environ.get("LD_PRELOAD"))
    say("child", os.popen("echo $LD_PRELOAD").read().strip())
    say("interrupt", signal.getsignal(signal.SIGINT) is signal.default_int_handler, signal.getsignal(signal.SIGTERM))


globals()[sys.argv[1]](*sys.argv[2:])
say("process", time.process_time())
