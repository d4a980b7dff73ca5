"""What samples say of functions, against what the program itself has measured."""
from collections import Counter


def check_shares(samples, spent, run, period):
    """Compares CPU seconds of a thread's functions. samples: (function or None, seconds), in order; spent: {function: seconds};
    run: seconds that each function works at least before the next one does.

    A sample is of the time since the one before it, and of the function at its end: on a machine that is busy that is many periods
    late. So samples are right but for those where the function changes, and those that are long enough for a run of another one.
    """
    samples = list(samples)
    found, unsure, before = Counter(), Counter(), None
    for function, seconds in samples:
        found[function] += seconds
        if seconds + period >= run:
            unsure.update(dict.fromkeys(spent, seconds + period))
        elif function != before:
            unsure.update({function: seconds + period, before: seconds + period})
        before = function
    longest = max(seconds for _, seconds in samples) + period  # the thread may end before its last sample
    for function, seconds in spent.items():
        assert abs(found[function] - seconds) <= unsure[function] + longest, (function, found, spent, unsure)
    named = [i for i, (function, _) in enumerate(samples) if function in spent]
    whole = samples[named[0]:named[-1] + 1]
    assert abs(sum(seconds for _, seconds in whole) - sum(spent.values())) <= whole[0][1] + period + longest, (found, spent)
    assert sum(seconds for function, seconds in whole if function not in spent) < 0.05 * sum(spent.values()), found
