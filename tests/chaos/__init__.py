"""Real processes on an own server behind a bad network, and whether anything was lost.

::

    make chaos SECONDS=45 SEED=1         faults of every kind, from a seed
    make kills JOBS=100000 SECONDS=60    one of four workers killed every second

``faults`` says what happens when, ``acts`` does it, ``site`` has the processes, ``verdict``
compares what they left in the tables with what they wrote down outside.
"""
