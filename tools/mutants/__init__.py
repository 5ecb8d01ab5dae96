"""`make mutants`: plant faults chosen at random in src/barnabas, one at a time, and see whether a test fails.

Nobody who writes the tests chooses the faults: a seed does.  `places` finds where a fault may be put and
`operators` says which, `choice` draws a sample over all packages, `scratch` keeps the copies of the tree that
are broken, `tracing` notes once which test runs which line, `trial` runs the tests against one mutant, and
`record` keeps the results and writes docs/mutants.md.
"""
