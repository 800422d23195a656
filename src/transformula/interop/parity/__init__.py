"""A family held to transformers: both compute the same of one folder, and of each folder that is nearly the same.

The tests of this package's families and `transformula check-family` are made of these parts; transformers is imported
here alone, when a folder is compared.
"""
