import threading
import time


def until_sampled():
    """Until the recorder has given this thread a timer; after a minute without one."""
    clock = f"ClockID: {~threading.get_native_id() << 3 | 6}\n"
    end = time.monotonic() + 60
    while time.monotonic() < end:
        with open("/proc/self/timers") as file:
            if clock in file.read():
                return
        time.sleep(0.01)
