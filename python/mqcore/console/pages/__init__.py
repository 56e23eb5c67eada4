"""The pages: each module has what one part of the console shows, and the changes made there."""
