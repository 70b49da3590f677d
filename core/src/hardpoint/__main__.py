"""`python -m hardpoint` is the command line."""

from hardpoint.cli import main

if __name__ == "__main__":
    main()
