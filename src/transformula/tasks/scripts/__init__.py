"""Scripts that use an exported model without this package. An export has two of them: `runtime.py`, and as `predict.py`
that of the predictor (`classifier.py`, ...)."""
