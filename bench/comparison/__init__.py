"""The parts of compare.py: which rows there are, how programs run, how a run is reported."""
