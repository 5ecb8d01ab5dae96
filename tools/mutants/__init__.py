"""`make mutants`: plants random faults in src/barnabas, one at a time, and checks that a test fails.

A seed chooses the faults, not the author of the tests.  `places` finds where a fault may be put and
`operators` which, `choice` draws a sample over all packages, `scratch` keeps the copies of the tree that
are mutated, `tracing` records once which test runs which line, `imports` guesses it without a run, `trial`
runs the tests against one mutant, and `record` keeps the results and writes docs/mutants.md.
"""
