"""The command line: `mqcore`. Each sub-command imports what it needs when it runs."""
