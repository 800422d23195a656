"""The proposers that come with the program."""
