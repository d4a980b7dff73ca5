"""Spends known shares of its time in functions of every kind; the argument is seconds. Prints name, seconds."""
import sys
import time

from sampled import until_sampled


def until(seconds):
    return time.thread_time() + seconds


def loops(seconds):
    end = until(seconds)
    while time.thread_time() < end:
        for i in range(3000): i * i  # LINE loops


def calls_back(seconds):
    end = until(seconds)
    while time.thread_time() < end:
        sorted(range(2000), key=lambda v: -v)


def recurses(seconds):
    def down(n):
        return down(n - 1) + 1 if n else 0

    end = until(seconds)
    while time.thread_time() < end:
        for _ in range(50):
            down(40)


def generates(seconds):
    end = until(seconds)
    while time.thread_time() < end:
        sum(i for i in range(1000))


class Thing:
    def __init__(self):
        self.value = [1]

    def __del__(self):
        len(self.value)

    def __call__(self, x):
        return self.method(x)

    def method(self, x):
        return x + 1


def objects(seconds):
    end = until(seconds)
    while time.thread_time() < end:
        thing = Thing()
        for i in range(100):
            thing(i)


SHARES = ((loops, 0.3), (calls_back, 0.25), (recurses, 0.2), (generates, 0.15), (objects, 0.1))
until_sampled()
for function, share in SHARES:
    before = time.thread_time()
    function(float(sys.argv[1]) * share)
    print(function.__name__, time.thread_time() - before, flush=True)
