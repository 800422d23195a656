"""The command line: one thin function a verb. What it prints is made by the rooms; nothing is decided here."""

from .door import main as main
