"""`python -m mqcore`: the same as the command `mqcore`, where that is not on the path."""

from mqcore.cli.main import main

if __name__ == "__main__":
    main()
