"""A model's folder, and other formats in and out."""
