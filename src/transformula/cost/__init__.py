"""What things cost, as far as no graph is needed: the machine, memory by part, bytes and seconds in words. Parameters,
FLOPs and activations are counted in `analysis/accounting.py`, and what an optimizer keeps is said at the optimizer."""
