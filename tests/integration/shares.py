"""What samples say of functions, against what the program itself has measured."""
from collections import Counter


def check_shares(samples, spent, run, period):
    """Compares CPU seconds of a thread's functions. samples: (function or None, seconds), in order; spent: {function: seconds};
    run: seconds that each function works at least before the next one does.

    A sample is of the time since the one before it, and of the function at its end: on a machine that is busy that is many periods
    late. So samples are right but for those where the function changes, and those that are long enough for a run of another one.
    """
    found, unsure, before, longest = Counter(), Counter(), None, 0
    for function, seconds in samples:
        found[function] += seconds
        if seconds + period >= run:
            unsure.update(dict.fromkeys(spent, seconds + period))
        elif function != before:
            unsure.update({function: seconds + period, before: seconds + period})
        before, longest = function, max(longest, seconds)
    for function, seconds in spent.items():
        # The thread may end before its last sample.
        assert abs(found[function] - seconds) <= unsure[function] + longest + period, (function, found, spent, unsure)
