"""The kinds of target a user can name, one file each."""
