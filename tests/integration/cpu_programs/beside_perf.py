"""Spends known CPU time, with the recorder in it from a moment that it chooses; says how much by thread.

Usage: beside_perf.py WHAT [ARGUMENT...], see the functions. Last it prints "process SECONDS STARTED", which exec and _exit make
impossible to take any later, and what the interpreter needed to start.
"""
import ctypes
import multiprocessing
import os
import resource
import signal
import sys
import threading
import time

SPIN = 0.4
started = time.process_time() - float(os.environ.get("SPENT", 0))


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
    until_read()
    say(f"thread {threading.get_native_id()}", time.thread_time())


def say_process():
    say("process", time.process_time(), started)


def say(*words):
    os.write(1, (" ".join(map(str, [os.getpid(), *words])) + "\n").encode())  # whole, also beside other processes


def timers():
    """Of which CPU clocks the process has timers."""
    with open("/proc/self/timers") as file:
        return [int(line.split()[1]) for line in file if line.startswith("ClockID:")]


def has_timer():
    return (~threading.get_native_id() << 3 | 6) in timers()


def until(is_so):
    end = time.monotonic() + 60
    while not is_so() and time.monotonic() < end:
        time.sleep(0.01)


def waits_of_recorder():
    """How often the recorder's thread has waited; None: it is not there."""
    for task in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{task}/status") as file:
                status = dict(line.split(":", 1) for line in file)
        except OSError:
            continue  # it has ended
        if status["Name"].strip() == "pitot":
            return int(status["voluntary_ctxt_switches"])
    return None


def until_read():
    """Until the recorder has read this thread's clock, which it does about each time that it wakes. On a busy machine signals are
    rare, and what a thread does after the last of them is known from its clock alone."""
    if has_timer():
        begun = waits_of_recorder()
        until(lambda: waits_of_recorder() >= begun + 5)


def load_recorder(is_taken=True):
    """As cuInit does; and until it samples this thread, if it will."""
    ctypes.CDLL(os.environ["CUDA_INJECTION64_PATH"]).InitializeInjection()
    if is_taken:
        until(has_timer)


def thread(*arguments, target=beside):
    one = threading.Thread(target=target, args=arguments)
    one.start()
    return one


def plain():
    early(SPIN)
    late(SPIN)


def sampled():
    until(has_timer)
    plain()


def works(seconds):
    until(has_timer)
    late(float(seconds))


def middle(is_taken="taken"):
    early(SPIN)
    threads = [thread(2 * SPIN)]
    load_recorder(is_taken == "taken")
    late(SPIN)
    threads.append(thread(SPIN))
    for one in threads:
        one.join()


def ends_at_once(how):
    middle()
    late(SPIN)
    say_process()
    if how == "_exit":
        os._exit(0)
    os.kill(os.getpid(), getattr(signal, how))


def becomes(*command):
    load_recorder()
    late(SPIN)
    say_process()
    os.environ["SPENT"] = str(time.process_time())
    os.execv(command[0], command)


def becomes_another_user():
    load_recorder()
    late(SPIN)
    os.setgid(65534)
    os.setuid(65534)
    late(SPIN)


def forks():
    load_recorder()
    late(SPIN)

    def work():
        late(SPIN)
        say_process()

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
    until(lambda: not timers())
    early(SPIN)


def blocks_the_signal():
    def blocking():
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGURG])
        early(SPIN)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGURG])
        until(has_timer)
        beside(SPIN)

    load_recorder()
    one = thread(target=blocking)
    one.join()


def refuses_timers():
    load_recorder()
    late(SPIN)
    resource.setrlimit(resource.RLIMIT_SIGPENDING, (0, 0))
    thread(SPIN).join()


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
say_process()
