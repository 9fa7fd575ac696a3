"""Making a program that trains right: rewrite what needs it, lower once, prove it, write it."""
