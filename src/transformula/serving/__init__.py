"""Trained models over HTTP: the interface of OpenAI's clients for text, one of our own for every other task."""
