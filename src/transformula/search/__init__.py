"""The program looks for wirings: proposals, a race, and what may be claimed of what it finds."""
