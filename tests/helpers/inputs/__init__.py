"""Inputs from outside, good and bad, made by the numbers of a random source; and what must hold.

Each module has ``run(rng)``, which makes one input, tries it, asserts what holds whatever it is,
and returns a word for what came of it. `rng` is a ``random.Random`` or what looks like one:
hypothesis's in the tests, `choices.Choices` over bytes in the fuzzer.
"""
