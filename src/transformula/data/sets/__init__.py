"""The built-in sets, a file each; see `built_in`."""
