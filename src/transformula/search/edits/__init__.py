"""The edits that come with the program, by what they change."""
