"""Named models: folders of published families, read and written by what their data files say."""
