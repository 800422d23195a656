"""What the runs of a comparison show, and how sure it is. Needs the extra `compare`: scipy and statsmodels."""
