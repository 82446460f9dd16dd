"""What count_functions.py is made of: reading callgrind's output, and the rules by which functions count."""
