"""`python -m ucsearch`: the same as the command, where the command is not on the path."""

from ucsearch.cli.main import main

if __name__ == "__main__":
    main()
