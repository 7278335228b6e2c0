"""`python -m dynres` is the `dynres` command."""

from dynres.cli.start import main

if __name__ == "__main__":
    main()
