"""What things cost, as far as no graph is needed: the machine, memory by part, bytes and seconds in words."""
