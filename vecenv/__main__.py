"""`python -m vecenv`: the command line."""

from vecenv.cli import main

if __name__ == "__main__":
    main(prog_name="python -m vecenv")
